"""Results: the record of a run, its canonical form, and its files."""
