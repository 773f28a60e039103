"""Creates test cases from conversations recorded in production."""
