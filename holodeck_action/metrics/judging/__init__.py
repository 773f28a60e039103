"""Judges that grade: questions of our own, verdicts, panels and votes."""
