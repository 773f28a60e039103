"""Publishing on GitHub: comment, check run, review and annotations."""
