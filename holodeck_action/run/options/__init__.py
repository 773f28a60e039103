"""The inputs of the Action and the options of commands, each declared once."""
