"""Entry point of the image: the step of a workflow when the runner starts it, else the command line."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    if os.environ.get("GITHUB_ACTIONS") == "true" and len(sys.argv) == 1:
        from holodeck_action.action import main
    else:
        from holodeck_action.cli import main
    main()
