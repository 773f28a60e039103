"""The viewer's page of a run, report.html."""
