"""How each interface writes a conversation and its answers as JSON."""
