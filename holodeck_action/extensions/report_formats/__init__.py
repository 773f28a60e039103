"""Reports for other programs: SARIF, and GitLab's code quality."""
