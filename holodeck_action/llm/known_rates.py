"""How many requests a second accounts took in earlier runs, one small file for each account in the cache folder.

A rate is only ever the start of a pace (`pace`), and no record depends on it. The files are foreign input: whatever is
damaged, implausible, from the future or more than a day old is as if it were missing. Each is replaced in one step, so
that of several runs the last one counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from holodeck_action.llm.calls import Account
from holodeck_action.llm.limits.pace import LEAST, MOST
from holodeck_action.record.disk import UNSYNCED_DISK, write_atomically
from holodeck_action.text.foreign import ForeignError, read_file

FOLDER = "rates"
FORGOTTEN_AFTER = timedelta(hours=24)
_MOST_BYTES = 1_000
_DIGITS = 2
"""Decimal places of a rate in its file."""


class _Known(Struct, frozen=True, forbid_unknown_fields=True):
    """A rate in requests a second, and when it was measured."""

    rate: Annotated[float, Meta(ge=LEAST, le=MOST)]
    at: Annotated[datetime, Meta(tz=True)]


_DECODER = msgspec.json.Decoder(_Known)


class KnownRates:
    """The rates of accounts in a cache folder; without a folder nothing is known or kept."""

    def __init__(self, cache: Path | None, now: Callable[[], datetime]) -> None:
        """Prepare; nothing is read or made.

        Args:
            cache: the cache folder; None for none.
            now: the time of day, in UTC.
        """
        self._folder = None if cache is None else cache / FOLDER
        self._now = now

    def read(self, account: Account) -> float | None:
        """Return the requests a second that an account took less than a day ago; None if that is not known."""
        if self._folder is None:
            return None
        try:
            known = read_file(_path(self._folder, account), _MOST_BYTES, follow=False).parse(_DECODER.decode)
        except (OSError, ForeignError):
            return None
        return known.rate if timedelta() <= self._now() - known.at < FORGOTTEN_AFTER else None

    def keep(self, account: Account, rate: float | None) -> None:
        """Keep a rate for later runs, in the place of an earlier one; None forgets that.

        A folder that cannot be written keeps nothing: the next run then starts without a rate.
        """
        if self._folder is None or rate == self.read(account):
            # A rate that nothing has tested gets no new date.
            return
        path = _path(self._folder, account)
        with suppress(OSError):
            if rate is None:
                UNSYNCED_DISK.remove(path)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            known = _Known(round(rate, _DIGITS), self._now())
            write_atomically(path, [msgspec.json.encode(known) + b"\n"], disk=UNSYNCED_DISK)


def _path(folder: Path, account: Account) -> Path:
    """Return the file of an account, whose name holds neither its key nor its address."""
    parts = (account.provider, account.base_url, _digest(account.key))
    return folder / f"{_digest(' '.join(parts))[:32]}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
