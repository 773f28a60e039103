"""Cases made of conversations of production."""
