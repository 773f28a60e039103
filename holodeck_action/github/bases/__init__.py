"""Results and files of the base, from GitHub and Git."""
