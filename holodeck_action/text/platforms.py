"""The platforms on which the program runs."""

WINDOWS = (
    "holodeck-action runs on Linux and macOS, and on Windows in WSL: "
    "install it there (https://learn.microsoft.com/windows/wsl/install)"
)
"""The sentence that meets whoever starts it on Windows itself."""
