"""Results and files of the base, from what GitHub and Git store."""
