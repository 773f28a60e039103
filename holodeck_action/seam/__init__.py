"""What an extension declares, and how the core finds it."""
