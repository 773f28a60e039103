"""Files of URLs on disk: downloaded once per run, and kept between runs where that is wanted."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from holodeck_action.targets.attachments.fetching import DownloadError, Fetcher

ATTEMPTS = 3
FIRST_PAUSE_S = 1.0
"""Seconds before the second attempt, doubled before the third."""


class Downloads:
    """The files of the URLs that cases name; used within one event loop."""

    def __init__(
        self,
        fetcher: Fetcher,
        *,
        timeout_s: float,
        cache: Path | None,
        online: bool,
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        """Prepare; nothing is downloaded or written yet.

        Args:
            fetcher: what asks the servers.
            timeout_s: seconds one file may take, with all attempts (`execution.download_timeout`).
            cache: folder in which files are kept between runs, under the SHA-256 of their URLs; None keeps none.
            online: False in a replay, where only kept files are used.
            pause: waits for seconds.
        """
        self._fetcher = fetcher
        self._timeout_s = timeout_s
        self._cache = cache
        self._online = online
        self._pause = pause
        self._fetching: dict[tuple[str, bool], asyncio.Task[Path]] = {}
        self._temporary: Path | None = None

    async def path(self, url: str, *, cached: bool) -> Path:
        """Return the file of a URL.

        Args:
            url: where it is.
            cached: use and keep a copy between runs, if there is a folder for that.

        Raises:
            DownloadError: it cannot be had.
        """
        key = (url, cached)
        if key not in self._fetching:
            self._fetching[key] = asyncio.create_task(self._fetched(url, cached))
        # Others may wait for it, too: whoever gives up waiting does not end it.
        try:
            return await asyncio.shield(self._fetching[key])
        except DownloadError:
            # Whoever needs it next may be luckier.
            self._fetching.pop(key, None)
            raise

    async def close(self) -> None:
        """End downloads under way and remove what is not kept."""
        for task in self._fetching.values():
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)
        await self._fetcher.close()
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)

    async def _fetched(self, url: str, cached: bool) -> Path:
        name = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()
        kept = self._cache / name if cached and self._cache is not None else None
        if kept is not None and kept.is_file():
            return kept
        if not self._online:
            raise DownloadError(
                "a replay downloads nothing, and "
                + (
                    "the folder of execution.cache_dir has no copy of it; take that folder along from the recorded run"
                    if kept is not None
                    else "it is not kept between runs; record with execution.cache_enabled and without `cache: false`"
                )
            )
        data = await self._within_time(url)
        if kept is None:
            if self._temporary is None:
                self._temporary = Path(tempfile.mkdtemp(prefix="holodeck-action-"))
            kept = self._temporary / name
        try:
            _write(kept, data)
        except OSError as error:
            raise DownloadError(
                f"it cannot be kept: {error.strerror}; set execution.cache_dir to a folder that can be written"
            ) from None
        return kept

    async def _within_time(self, url: str) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._tried(url)
        except TimeoutError:
            raise DownloadError(
                f"it was not downloaded within {self._timeout_s:g} s; raise execution.download_timeout"
            ) from None

    async def _tried(self, url: str) -> bytes:
        for attempt in range(ATTEMPTS - 1):
            try:
                return await self._fetcher.fetch(url)
            except DownloadError as error:
                if not error.transient:
                    raise
            await self._pause(FIRST_PAUSE_S * 2**attempt)
        try:
            return await self._fetcher.fetch(url)
        except DownloadError as error:
            raise DownloadError(f"{error.message}{f' ({ATTEMPTS} attempts)' if error.transient else ''}") from None


def _write(path: Path, data: bytes) -> None:
    """Write a file in one step, so that nobody ever finds half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".download.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
