"""The inputs of the Action and of `run`, each declared once."""
