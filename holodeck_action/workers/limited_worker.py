"""A process with limits: nothing of the checkout can be imported, and memory is bounded (see `limited.py`).

Arguments as for `holodeck_action.workers.worker`, whose server answers here, too.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

MEMORY_BYTES = 1 << 30
"""Most bytes of memory of its own: what a small file can be made to unpack to has no other bound."""


def main() -> None:
    """Prepare the process and answer until the connection ends."""
    connection, lifeline, folder, package_folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    if package_folder not in sys.path:
        sys.path.append(package_folder)
    from holodeck_action.workers.serving import Server
    from holodeck_action.workers.worker import prepare

    prepare(connection, lifeline)
    _limit_memory()
    del sys.argv[1:]
    Server(connection, folder, os.getcwd()).serve()


def _limit_memory() -> None:
    import resource

    # Some systems know no such limit; there the deadline alone ends a conversion.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))


if __name__ == "__main__":
    main()
