"""The command `doctor`: checks the installation, the job and the suites for missing requirements."""
