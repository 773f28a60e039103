"""Recorded model calls: their storage, and their lookup by key."""
