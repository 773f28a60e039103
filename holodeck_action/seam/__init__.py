"""The declaration of an extension, and the registry through which the core finds it."""
