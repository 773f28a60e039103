"""The results that a run is compared with."""
