"""Cases from files: tables, rows and columns."""
