"""Imports from promptfoo: configuration file, cases, prompts, providers and assertions."""
