"""Results that other programs stored, as records of ours."""
