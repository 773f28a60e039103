"""Extensions: features that few repositories need. The core imports only those allowed by pyproject.toml."""
