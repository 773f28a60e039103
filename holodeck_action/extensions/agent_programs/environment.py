"""The environment of programs: variables of the job by name, so that nothing of the runner and no secret is in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from holodeck_action.workers.environment import WITHHELD_VARIABLES

_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE")
COMMON = ("PATH", "LANG", "LC_ALL", "TZ", *_PROXIES, *_CERTIFICATES)
"""Variables of the job that every program gets."""
_OF_RUNNER = ("GITHUB_", "ACTIONS_", "RUNNER_", "INPUT_")
"""How the names of variables of the runner begin, which no program gets."""


def chosen(environ: Mapping[str, str], *names: str) -> dict[str, str]:
    """Return the common variables and those with the given names, as far as they are set.

    Relative folders of the PATH are dropped: they would be folders of the workspace.
    """
    found = {name: environ[name] for name in (*COMMON, *names) if environ.get(name)}
    return found | {"PATH": os.pathsep.join(filter(os.path.isabs, found.get("PATH", os.defpath).split(os.pathsep)))}


def offline(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment without proxies, which would get requests to loopback."""
    return {name: value for name, value in environ.items() if name not in _PROXIES}


def refused(names: Iterable[str]) -> str | None:
    """Return the first name of a variable that no program may get; None if there is none."""
    return next((name for name in names if name.startswith(_OF_RUNNER) or name in WITHHELD_VARIABLES), None)
