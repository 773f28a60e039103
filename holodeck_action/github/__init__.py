"""Where it is posted: comment, check, review and annotations."""
