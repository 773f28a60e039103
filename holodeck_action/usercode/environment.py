"""The environment that foreign code sees: the job's, without the tokens that act in our name."""

from __future__ import annotations

from collections.abc import Mapping

WITHHELD = frozenset(
    {
        "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
        "ACTIONS_ID_TOKEN_REQUEST_URL",
        "ACTIONS_RUNTIME_TOKEN",
        "GH_TOKEN",
        "GITHUB_TOKEN",
        "INPUT_GITHUB-TOKEN",
        "INPUT_GITHUB_TOKEN",
    }
)
"""Variables that carry the job's own authority."""


def job_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return `environ` for a process that runs code of the checkout: everything but the job's own tokens."""
    return {name: value for name, value in environ.items() if name not in WITHHELD}
