"""What a person at a terminal sees while a run goes on and when it ends."""
