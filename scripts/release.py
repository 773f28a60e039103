"""What a release has to check and to change; `.github/workflows/release.yml` runs it, with nothing installed.

    python3 -m scripts.release check v1.2.3     # the tag is that of the version, and the changelog knows both
    python3 -m scripts.release notes v1.2.3     # print what the changelog says about the version
    git tag --list 'v*' | python3 -m scripts.release moving v1.2.3    # print which tags move, as outputs of a step
    python3 -m scripts.release pin v1.2.3       # have action.yml run the image of the version

Exit code 1 and one sentence on standard error when something does not fit.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from holodeck_action import __version__

IMAGE = "ghcr.io/holodeck-action/holodeck-action"
ROOT = Path(__file__).parents[1]

_TAG = re.compile(r"v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_BUILT = "  image: Dockerfile\n"


class ReleaseError(Exception):
    """The release cannot go on; the message is one sentence with the way out."""


def check(tag: str, version: str, changelog: str) -> None:
    """Check that a tag is that of the version and that the changelog has a dated section about it.

    Raises:
        ReleaseError: one of them is not so.
    """
    _numbers(tag)
    if tag != f"v{version}":
        raise ReleaseError(f"the tag is {tag}, but holodeck_action/__init__.py says {version}: change one of them")
    notes(version, changelog)


def notes(version: str, changelog: str) -> str:
    """Return what a changelog says about a version, without the heading.

    Raises:
        ReleaseError: there is no section `## VERSION (YYYY-MM-DD)`, or nothing in it.
    """
    heading = rf"^## {re.escape(version)} \([0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}\)\n"
    _, *sections = re.split(heading, changelog, flags=re.MULTILINE)
    if len(sections) != 1:
        raise ReleaseError(
            f"CHANGELOG.md has {len(sections)} headings `## {version} (YYYY-MM-DD)`, one is needed: "
            "put the date of the release where it says (unreleased)"
        )
    text = re.split(r"^## ", sections[0], flags=re.MULTILINE)[0].strip()
    if not text:
        raise ReleaseError(f"CHANGELOG.md says nothing about {version}")
    return text + "\n"


def moving(tag: str, tags: Iterable[str]) -> dict[str, str]:
    """Tell which tags follow a release, so that a fix of an older version takes nobody back.

    Args:
        tag: the release's.
        tags: all tags of the repository; those that are no version's do not count.

    Returns:
        Outputs of a step: `major`, the tag to move such as `v1`, empty when a newer version has it; `latest`, `true`
        when no version at all is newer.

    Raises:
        ReleaseError: the tag is no version's.
    """
    released = _numbers(tag)
    versions = [_numbers(other) for other in tags if _TAG.fullmatch(other)]
    newest_of_major = all(other <= released for other in versions if other[0] == released[0])
    newest = all(other <= released for other in versions)
    return {"major": f"v{released[0]}" if newest_of_major else "", "latest": str(newest).lower()}


def pinned(tag: str, action: str) -> str:
    """Return the text of action.yml that runs the pushed image of a tag instead of building one.

    Raises:
        ReleaseError: the tag is no version's, or the text neither builds an image nor runs this one.
    """
    _numbers(tag)
    pulled = f"  image: docker://{IMAGE}:{tag}\n"
    if pulled in action:
        return action
    if action.count(_BUILT) != 1:
        raise ReleaseError(f"action.yml has no line `{_BUILT.strip()}` to replace by `{pulled.strip()}`")
    return action.replace(_BUILT, pulled)


def _numbers(tag: str) -> tuple[int, int, int]:
    found = _TAG.fullmatch(tag)
    if found is None:
        raise ReleaseError(f"the tag {tag!r} is no version: tag it like v1.2.3")
    return int(found[1]), int(found[2]), int(found[3])


def _check(tag: str) -> None:
    check(tag, __version__, _changelog())


def _notes(tag: str) -> None:
    _check(tag)
    sys.stdout.write(notes(__version__, _changelog()))


def _moving(tag: str) -> None:
    outputs = moving(tag, sys.stdin.read().split())
    sys.stdout.write("".join(f"{name}={value}\n" for name, value in outputs.items()))


def _pin(tag: str) -> None:
    file = ROOT / "action.yml"
    file.write_text(pinned(tag, file.read_text(encoding="utf-8")), encoding="utf-8")


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


_COMMANDS: dict[str, Callable[[str], None]] = {"check": _check, "notes": _notes, "moving": _moving, "pin": _pin}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m scripts.release")
    parser.add_argument("command", choices=_COMMANDS)
    parser.add_argument("tag", help="such as v1.2.3")
    given = parser.parse_args(arguments)
    try:
        _COMMANDS[given.command](given.tag)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
