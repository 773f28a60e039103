"""Safe output and writing of text, for every room."""
