"""How an answer is graded."""
