"""Results in the form that HoneyHive reads."""
