"""What holds model calls back: limits of an account, pauses, and the budget."""
