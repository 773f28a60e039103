"""The findings of `doctor`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct


class Finding(Struct, frozen=True):
    """One finding about the installation, the job or a suite.

    Attributes:
        about: the installation, the job, or the path of a suite.
        subject: the fact's subject, such as `extras`.
        state: `problem` if it prevents a suite from running, `note` if something may be missing, `unknown` if the check
            was not possible.
        text: the fact, with a remedy if something is missing.
        details: the fact as JSON values, for programs.
    """

    about: str
    subject: str
    state: Literal["ok", "note", "unknown", "problem"]
    text: str
    details: Mapping[str, Any] = {}
