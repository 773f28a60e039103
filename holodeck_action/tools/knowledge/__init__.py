"""What retrieval tools know: documents in pieces, and how they are found."""
