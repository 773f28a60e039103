"""Checks and changes files for a release; `.github/workflows/release.yml` runs it without installed packages.

    git tag --list | python3 -m scripts.release check    # the version is new; print the tag and what follows it
    python3 -m scripts.release notes                     # print what the changelog says about the version
    python3 -m scripts.release pin sha256:0123…          # have action.yml run the image of this digest

The version is that of `holodeck_action/__init__.py`. Exit code 1 and one sentence on standard error when something does
not fit.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from holodeck_action import __version__

IMAGE = "ghcr.io/holodeck-action/holodeck-action"
ROOT = Path(__file__).parents[1]

_TAG = re.compile(r"v(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_BUILT = "  image: Dockerfile\n"


class ReleaseError(Exception):
    """The release cannot continue; the message is a sentence that says what to do."""


def release_outputs(version: str, changelog: str, tags: Iterable[str]) -> dict[str, str]:
    """Check that a version can be released: it is new, and the changelog has a dated section for it.

    Args:
        version: the version in `holodeck_action/__init__.py`.
        changelog: the text of CHANGELOG.md.
        tags: all tags of the repository; tags that are not versions are ignored.

    Returns:
        Outputs of a step: `tag`, such as `v1.2.3`; `major`, the branch to move, such as `v1`, or empty if it is at a
        newer version, so that a fix of an older version downgrades no one; `latest`, `true` if no version is newer.

    Raises:
        ReleaseError: the version cannot be released.
    """
    tag = f"v{version}"
    released = _version_numbers(tag)
    if released is None:
        raise ReleaseError(f"holodeck_action/__init__.py says {version!r}, which is no version: write it like 1.2.3")
    versions = [numbers for numbers in map(_version_numbers, tags) if numbers is not None]
    if released in versions:
        raise ReleaseError(f"{tag} is released already, and a tag never moves: raise the version")
    release_notes(version, changelog)
    newest_of_major = all(other < released for other in versions if other[0] == released[0])
    newest = all(other < released for other in versions)
    return {"tag": tag, "major": f"v{released[0]}" if newest_of_major else "", "latest": str(newest).lower()}


def release_notes(version: str, changelog: str) -> str:
    """Return the changelog's section for a version, without its heading.

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
        raise ReleaseError(f"the section for {version} in CHANGELOG.md is empty: say what changed")
    return text + "\n"


def pin_image(version: str, digest: str, action: str) -> str:
    """Return the text of action.yml, changed to run a pushed image instead of building one.

    Raises:
        ReleaseError: the digest is invalid, or the text does not build an image.
    """
    if _DIGEST.fullmatch(digest) is None:
        raise ReleaseError(f"{digest!r} is no digest of an image: give sha256: and 64 hexadecimal digits")
    if action.count(_BUILT) != 1:
        raise ReleaseError(f"action.yml does not have one line `{_BUILT.strip()}` to replace")
    return action.replace(_BUILT, f"  image: docker://{IMAGE}@{digest} # v{version}\n")


def _version_numbers(tag: str) -> tuple[int, int, int] | None:
    found = _TAG.fullmatch(tag)
    return found and (int(found[1]), int(found[2]), int(found[3]))


def _run(command: str, digest: str | None) -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    if command == "check":
        outputs = release_outputs(__version__, changelog, sys.stdin.read().split())
        sys.stdout.write("".join(f"{name}={value}\n" for name, value in outputs.items()))
    elif command == "notes":
        sys.stdout.write(release_notes(__version__, changelog))
    else:
        file = ROOT / "action.yml"
        file.write_text(pin_image(__version__, digest or "", file.read_text(encoding="utf-8")), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return the exit code."""
    parser = argparse.ArgumentParser(prog="python3 -m scripts.release")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("check")
    commands.add_parser("notes")
    commands.add_parser("pin").add_argument("digest")
    given = parser.parse_args(arguments)
    try:
        _run(given.command, getattr(given, "digest", None))
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
