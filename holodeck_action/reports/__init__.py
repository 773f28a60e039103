"""Reports: a record and its verdict in all formats."""
