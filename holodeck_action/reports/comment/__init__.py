"""The comment on a pull request and the summary of its check run, both within GitHub's limits."""
