"""Results and files of the commit that a run is compared with (the base), from GitHub and Git."""
