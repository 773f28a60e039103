"""promptfoo: its configuration file, cases, prompts, providers and assertions."""
