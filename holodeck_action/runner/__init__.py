"""The loop: cases and trials become a record."""
