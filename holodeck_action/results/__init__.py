"""What came out: record, evaluation, verdict."""
