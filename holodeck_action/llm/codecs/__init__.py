"""Codecs: translation of conversations and answers to and from the JSON of each provider's API."""
