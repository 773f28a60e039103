"""Reads the file that describes an event. GitHub writes this file, but its content is untrusted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeGuard, TypeVar

from msgspec import Struct

from holodeck_action.text.foreign import ForeignError, RefusedFileError, read_file
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import one_line

PAYLOAD_LIMIT = 25 * 1024 * 1024
"""Maximum bytes of an event's payload; GitHub does not deliver larger ones (webhook documentation, "Payload cap")."""

_LARGEST_NUMBER = 2**63 - 1
_LONGEST_BRANCH = 1024
_HASH = lazy_pattern(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REPOSITORY = lazy_pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}/(?!\.{1,2}$)[A-Za-z0-9._-]{1,100}", re.ASCII)
# Control characters are in no reference (git check-ref-format); a lone surrogate cannot be sent.
_INVALID = lazy_pattern(r"[\x00-\x1f\x7f\ud800-\udfff]")
_LOGIN = lazy_pattern(r"[A-Za-z0-9._-]{1,100}", re.ASCII)

_T = TypeVar("_T")


class EventError(Exception):
    """The event that started the workflow run cannot be read; the message is one sentence."""


def read_event(environ: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """Read the event that started the workflow run.

    Args:
        environ: environment variables, including the runner's `GITHUB_EVENT_NAME` and `GITHUB_EVENT_PATH`.

    Returns:
        Name and payload of the event; both are empty outside of GitHub Actions.

    Raises:
        EventError: there is no payload, or it is not a JSON object of at most `PAYLOAD_LIMIT` bytes.
    """
    name = environ.get("GITHUB_EVENT_NAME", "").strip()
    if not name:
        return "", {}
    file = environ.get("GITHUB_EVENT_PATH", "").strip()
    if not file:
        raise EventError(f"GITHUB_EVENT_NAME is {one_line(name, 60)}, but GITHUB_EVENT_PATH is not set: {_REMEDY}")
    try:
        payload = read_file(file, PAYLOAD_LIMIT).json()
    except RefusedFileError as error:
        raise EventError(f"GITHUB_EVENT_PATH {error.clause}: {_REMEDY}") from error
    except OSError as error:
        raise EventError(f"GITHUB_EVENT_PATH cannot be read: {error.strerror}: {_REMEDY}") from error
    except ForeignError as error:
        raise EventError(f"GITHUB_EVENT_PATH holds no JSON: {_REMEDY}") from error
    if not isinstance(payload, dict):
        raise EventError(f"GITHUB_EVENT_PATH holds no JSON object: {_REMEDY}")
    return name, payload


def is_hash(value: object) -> TypeGuard[str]:
    """Return whether a value is a full commit hash. A hash of zeros, which GitHub sends if there is no commit, is not
    accepted."""
    return isinstance(value, str) and _HASH.fullmatch(value) is not None and value.strip("0") != ""


def is_repository(value: object) -> TypeGuard[str]:
    """Return whether a value has the form `owner/name`."""
    return isinstance(value, str) and _REPOSITORY.fullmatch(value) is not None


def is_number(value: object) -> TypeGuard[int]:
    """Return whether a value can be an id or the number of a pull request."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_NUMBER


def is_login(value: object) -> TypeGuard[str]:
    """Return whether a value can be the name of an account."""
    return isinstance(value, str) and _LOGIN.fullmatch(value) is not None


def is_branch(value: object) -> TypeGuard[str]:
    """Return whether a value can be the name of a branch."""
    return isinstance(value, str) and 0 < len(value) <= _LONGEST_BRANCH and not _INVALID.search(value)


_EXPECTED: Mapping[Callable[[object], object], str] = {
    is_hash: "a commit's hash",
    is_repository: "a repository's owner/name",
    is_number: "a number",
    is_login: "an account's name",
    is_branch: "a branch's name",
}


class Payload(Struct, frozen=True):
    """An event's payload. Fields are named by dotted paths."""

    event: str
    data: Mapping[str, Any]

    def get(self, path: str) -> Any:
        """Return a value; None if it, or an object on its path, is missing or null."""
        value: Any = self.data
        for name in path.split("."):
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        return value

    def optional(self, path: str) -> Mapping[str, Any] | None:
        """Return an object; None if it is missing or null. Raises: `EventError` if it is not an object."""
        value = self.get(path)
        if value is not None and not isinstance(value, Mapping):
            raise self._field_error(path, "an object")
        return value

    def need(self, path: str, is_valid: Callable[[object], TypeGuard[_T]]) -> _T:
        """Return a field. Raises: `EventError` if it is missing or not valid."""
        value = self.get(path)
        if not is_valid(value):
            raise self._field_error(path, _EXPECTED[is_valid])
        return value

    def _field_error(self, path: str, expected: str) -> EventError:
        found = "missing" if self.get(path) is None else f"not {expected}"
        return EventError(f"the payload of the event {one_line(self.event, 60)}: {path} is {found}: {_REMEDY}")


_REMEDY = "leave GITHUB_EVENT_NAME and GITHUB_EVENT_PATH as GitHub's runner sets them"
