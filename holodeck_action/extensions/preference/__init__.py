"""Two answers to the same question, compared by a judge."""
