"""Foreign Python, run in a killable worker process."""
