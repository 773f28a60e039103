"""The command line and the stream of each program."""
