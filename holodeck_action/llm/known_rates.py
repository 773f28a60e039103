"""Requests per second that accounts accepted in earlier runs, one small file per account in the cache folder.

A stored rate is only the initial rate of a `window.Window`; no record depends on it. The files are untrusted: values
that are damaged, implausible, dated in the future or older than a day are ignored. Files are replaced atomically, so
the rate of the last writer remains.
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
from holodeck_action.llm.limits.window import MAX_RATE, MIN_RATE
from holodeck_action.record.disk import UNSYNCED_DISK, write_atomically
from holodeck_action.text.foreign import ForeignError, read_file

FOLDER = "rates"
FORGOTTEN_AFTER = timedelta(hours=24)
_MOST_BYTES = 1_000
_DIGITS = 2
"""Decimal places of a rate in its file."""


class _StoredRate(Struct, frozen=True, forbid_unknown_fields=True):
    """A rate in requests per second, and when it was measured."""

    rate: Annotated[float, Meta(ge=MIN_RATE, le=MAX_RATE)]
    at: Annotated[datetime, Meta(tz=True)]


_DECODER = msgspec.json.Decoder(_StoredRate)


class KnownRates:
    """Reads and stores the rates of accounts in a cache folder; does nothing if there is no folder."""

    def __init__(self, cache: Path | None, now: Callable[[], datetime]) -> None:
        """Create the instance; no file is read or created yet.

        Args:
            cache: the cache folder; None to store nothing.
            now: returns the current time in UTC.
        """
        self._folder = None if cache is None else cache / FOLDER
        self._now = now

    def read(self, account: Account) -> float | None:
        """Return the requests per second that an account accepted less than a day ago; None if unknown."""
        if self._folder is None:
            return None
        try:
            known = read_file(_rate_file(self._folder, account), _MOST_BYTES, follow_links=False).parse(_DECODER.decode)
        except (OSError, ForeignError):
            return None
        return known.rate if timedelta() <= self._now() - known.at < FORGOTTEN_AFTER else None

    def store(self, account: Account, rate: float | None) -> None:
        """Store a rate for later runs; None deletes the stored rate.

        Errors are ignored. After an error, the next run starts without a known rate.
        """
        if self._folder is None or rate == self.read(account):
            # An unchanged rate was not tested in this run, so its date is kept.
            return
        path = _rate_file(self._folder, account)
        with suppress(OSError):
            if rate is None:
                UNSYNCED_DISK.remove(path)
                return
            path.parent.mkdir(parents=True, exist_ok=True)
            known = _StoredRate(round(rate, _DIGITS), self._now())
            write_atomically(path, [msgspec.json.encode(known) + b"\n"], disk=UNSYNCED_DISK)


def _rate_file(folder: Path, account: Account) -> Path:
    """Return the path of an account's file; its name reveals neither key nor URL."""
    parts = (account.provider, account.base_url, _digest(account.key))
    return folder / f"{_digest(' '.join(parts))[:32]}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
