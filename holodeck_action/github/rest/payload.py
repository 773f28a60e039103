"""The file that describes an event, read strictly: it is GitHub's, but what is in it was written by anybody."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.text.foreign import ForeignError, RefusedFileError, read_file
from holodeck_action.text.plain import one_line

PAYLOAD_LIMIT = 25 * 1024 * 1024
"""Bytes of an event's payload; GitHub delivers none that is larger (webhook documentation, "Payload cap")."""

_LARGEST_NUMBER = 2**63 - 1
_LONGEST_BRANCH = 1024
_HASH = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
_LOGIN = re.compile(r"[A-Za-z0-9._-]{1,100}", re.ASCII)


class EventError(Exception):
    """An event that nothing can be told from; the message is one sentence."""


def read_event(environ: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """Read the event that started the workflow run.

    Args:
        environ: the runner's variables, of them `GITHUB_EVENT_NAME` and `GITHUB_EVENT_PATH`.

    Returns:
        Its name and its payload; `""` and nothing outside of GitHub Actions.

    Raises:
        EventError: there is no payload, or it is no JSON object of at most `PAYLOAD_LIMIT` bytes.
    """
    name = environ.get("GITHUB_EVENT_NAME", "").strip()
    if not name:
        return "", {}
    file = environ.get("GITHUB_EVENT_PATH", "").strip()
    if not file:
        raise EventError(f"GITHUB_EVENT_NAME is {one_line(name, 60)}, but GITHUB_EVENT_PATH is not set: {_AS_RUNNER}")
    try:
        payload = read_file(file, PAYLOAD_LIMIT).json()
    except RefusedFileError as error:
        raise EventError(f"GITHUB_EVENT_PATH {error.clause}: {_AS_RUNNER}") from error
    except OSError as error:
        raise EventError(f"GITHUB_EVENT_PATH cannot be read: {error.strerror}: {_AS_RUNNER}") from error
    except ForeignError as error:
        raise EventError(f"GITHUB_EVENT_PATH holds no JSON: {_AS_RUNNER}") from error
    if not isinstance(payload, dict):
        raise EventError(f"GITHUB_EVENT_PATH holds no JSON object: {_AS_RUNNER}")
    return name, payload


def is_hash(value: object) -> bool:
    """Tell whether a value is a commit's full hash; GitHub writes zeros for no commit."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None and value.strip("0") != ""


def is_repository(value: object) -> bool:
    """Tell whether a value is `owner/name`."""
    return isinstance(value, str) and _REPOSITORY.fullmatch(value) is not None


def is_number(value: object) -> bool:
    """Tell whether a value is the number of a pull request or an id."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_NUMBER


class Payload(Struct, frozen=True):
    """An event's payload; fields are named by dotted paths, and each raises EventError when it is not as expected."""

    event: str
    data: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Return a value; None where it, or anything on the way to it, is missing or null."""
        value: Any = self.data
        for name in path.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        return value

    def optional(self, path: str) -> Mapping[str, Any] | None:
        """Return an object; None where it is missing or null."""
        value = self.get(path)
        if value is not None and not isinstance(value, Mapping):
            raise self.wrong(path, "an object")
        return value

    def hash(self, path: str) -> str:
        """Return a commit's hash."""
        return self._text(path, is_hash(self.get(path)), "a commit's hash")

    def repository(self, path: str) -> str:
        """Return `owner/name`."""
        return self._text(path, is_repository(self.get(path)), "a repository's owner/name")

    def login(self, path: str) -> str:
        """Return an account's name."""
        value = self.get(path)
        return self._text(path, isinstance(value, str) and _LOGIN.fullmatch(value) is not None, "an account's name")

    def branch(self, path: str) -> str:
        """Return a branch's name: any text that a query can carry."""
        value = self.get(path)
        fits = isinstance(value, str) and 0 < len(value) <= _LONGEST_BRANCH and not _unusable(value)
        return self._text(path, fits, "a branch's name")

    def number(self, path: str) -> int:
        """Return the number of a pull request."""
        value = self.get(path)
        if not is_number(value):
            raise self.wrong(path, "a number")
        assert isinstance(value, int)
        return value

    def wrong(self, path: str, expected: str) -> EventError:
        """Return the error for a field that is missing or of another kind."""
        found = "missing" if self.get(path) is None else f"not {expected}"
        return EventError(f"the payload of the event {one_line(self.event, 60)}: {path} is {found}: {_AS_RUNNER}")

    def _text(self, path: str, fits: bool, expected: str) -> str:
        if not fits:
            raise self.wrong(path, expected)
        value = self.get(path)
        assert isinstance(value, str)
        return value


def _unusable(text: str) -> bool:
    # Control characters are in no reference (git check-ref-format); a lone surrogate cannot be sent.
    return any(character < " " or character == "\x7f" or "\ud800" <= character <= "\udfff" for character in text)


_AS_RUNNER = "leave GITHUB_EVENT_NAME and GITHUB_EVENT_PATH as GitHub's runner sets them"
