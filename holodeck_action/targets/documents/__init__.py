"""The text in documents: PDF, Office, HTML and plain text files."""
