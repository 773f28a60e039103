"""What came out: what a run keeps of each case, its canonical form, and its files."""
