"""What reads the files of a suite's cases, put together."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.variables import is_ci
from holodeck_action.targets.attachments.downloads import Downloads
from holodeck_action.targets.attachments.fetching import Fetcher, resolve
from holodeck_action.targets.attachments.files import CaseFiles
from holodeck_action.tools.documents.reader import DocumentReader


def build_files(
    checkout: Checkout,
    *,
    file_timeout_s: float,
    download_timeout_s: float,
    cache: Path | None,
    online: bool,
    environ: Mapping[str, str],
) -> CaseFiles:
    """Build the reader of case files; nothing is read, started or connected yet.

    Args:
        checkout: the suite's folder, and what may be read.
        file_timeout_s: seconds one conversion may take.
        download_timeout_s: seconds one download may take.
        cache: folder in which downloads are kept between runs; None keeps none.
        online: False in a replay, which downloads nothing.
        environ: the job's environment; in CI nothing is downloaded from private networks.
    """
    fetcher = Fetcher(public_only=is_ci(environ), resolve=resolve)
    downloads = Downloads(fetcher, timeout_s=download_timeout_s, cache=cache, online=online, pause=asyncio.sleep)
    return CaseFiles(checkout, DocumentReader(timeout_s=file_timeout_s, environ=environ), downloads)
