"""Extensions, which few repositories need. The core imports none, except where a contract in pyproject.toml says so."""
