"""Terminal output during a run and at its end."""
