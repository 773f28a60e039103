"""The page of a run: what report.html holds."""
