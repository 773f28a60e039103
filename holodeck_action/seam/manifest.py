"""What an extension declares: one value, `EXTENSION`, in the module `manifest` of its folder.

Everything here is plain text. A manifest imports this module alone, so that reading all of them costs next to nothing;
what a name stands for is imported when it is used.
"""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command of the command line.

    Attributes:
        name: as it is typed.
        help: the first sentence of its help, without the period.
        to: the `click.Command`, as `module:name`.
        group: title under which `--help` lists it.
    """

    name: str
    help: str
    to: str
    group: str


class Extension(NamedTuple):
    """What an extension is, and what it adds.

    Attributes:
        name: that of its folder.
        help: what it is for, one sentence.
        needs: extensions that it imports.
        commands: that it adds.
    """

    name: str
    help: str
    needs: tuple[str, ...] = ()
    commands: tuple[Command, ...] = ()
