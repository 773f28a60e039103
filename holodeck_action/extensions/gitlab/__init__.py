"""Publishes runs on merge requests of GitLab."""
