"""Reports for other programs: SARIF, GitLab's code quality, in-toto."""
