"""What every room needs to show and to write a text safely."""
