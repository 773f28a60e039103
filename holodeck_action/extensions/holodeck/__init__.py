"""The names that HoloDeck's documentation imports."""
