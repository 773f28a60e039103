"""What few repositories need. The core imports none of it, except where a contract in pyproject.toml says so."""
