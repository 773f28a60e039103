"""Safe reading and display of untrusted text."""
