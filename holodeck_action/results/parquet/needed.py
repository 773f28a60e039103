"""What Parquet needs."""

from __future__ import annotations

from importlib.util import find_spec

NEEDED = "needs the package pyarrow, which is not installed; install it with: pip install 'holodeck-action[parquet]'"


def is_installed() -> bool:
    """Tell whether Parquet can be read and written."""
    return find_spec("pyarrow") is not None
