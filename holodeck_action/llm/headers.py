"""Validates HTTP headers from a suite."""

from __future__ import annotations

from collections.abc import Set

from holodeck_action.record.agent_errors import TargetError
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import excerpt

_NAME = lazy_pattern(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE = lazy_pattern(r"[\t\x20-\x7e]*")


def check_header(name: str, value: str, *, reserved: Set[str], prefix: str = "") -> None:
    """Check that a header can be sent unchanged.

    Args:
        name: the header's name.
        value: the header's value, which no message repeats.
        reserved: lower-case names that the HTTP client sets itself.
        prefix: prefix of the message.

    Raises:
        TargetError: HTTP does not allow the header, or its name is reserved.
    """
    if not _NAME.fullmatch(name):
        raise TargetError(f"{prefix}header name {excerpt(name, 40)} holds characters that HTTP does not allow")
    if name.lower() in reserved:
        raise TargetError(f"{prefix}header {name} is set by the HTTP client itself; remove it")
    if not _VALUE.fullmatch(value):
        raise TargetError(
            f"{prefix}the value of header {name} holds a line break or another character that HTTP does not allow "
            "(a secret stored with a line end?)"
        )
