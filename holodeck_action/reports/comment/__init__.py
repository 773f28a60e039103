"""The comment on a pull request, the summary of its check, and how both stay below GitHub's limits."""
