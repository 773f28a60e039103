"""The adapters: each expresses a scenario in a program's documented CI usage."""
