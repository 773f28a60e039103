"""What this installation, its job and its suites have and lack."""
