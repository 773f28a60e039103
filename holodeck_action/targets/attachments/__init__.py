"""Files that cases give with their input: found, downloaded, and read for the model and the metrics."""
