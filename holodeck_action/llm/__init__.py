"""Model calls: clients, codecs, and the wire that makes all calls."""
