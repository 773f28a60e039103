"""What it means: gates, verdict, trials and statistics, as pure functions of a record."""
