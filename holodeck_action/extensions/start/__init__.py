"""The command `init`: looks at a repository, and writes the files that it lacks."""
