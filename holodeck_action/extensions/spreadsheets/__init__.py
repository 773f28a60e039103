"""Cases from sheets of Excel files."""
