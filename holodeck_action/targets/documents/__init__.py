"""Conversion of documents to text: PDF, Office, HTML and plain text files."""
