"""History of runs: storage, reading and trends."""
