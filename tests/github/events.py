"""Events as GitHub's runner hands them to a step: payloads of GitHub's shape, and the variables that go with them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

PAYLOADS = Path(__file__).parent / "payloads"

HEAD = "a" * 40
"""Head of the pull request, number 7 of octo/shop."""
MERGE = "c" * 40
"""Its test merge commit."""
BASE = "d" * 40
"""Head of the default branch."""
AFTER = "f" * 40
"""A commit of the default branch after `BASE`: what a merge queue, a merge or a tag made."""

RUN = "4242"
"""Id of the workflow run."""

_PULL = "refs/pull/7/merge"
_CHECKOUTS = {
    "pull_request": (MERGE, _PULL),
    "pull_request_review": (MERGE, _PULL),
    "pull_request.merged": (AFTER, "refs/heads/main"),
    "push": (HEAD, "refs/heads/topic"),
    "push.tag": (AFTER, "refs/tags/v1.2.0"),
    "push.deleted": (BASE, "refs/heads/main"),
    "merge_group": (AFTER, f"refs/heads/gh-readonly-queue/main/pr-7-{BASE}"),
    "release": (AFTER, "refs/tags/0.0.1"),
}
"""`GITHUB_SHA` and `GITHUB_REF` by payload or event; of all others they are the default branch's."""


def names() -> list[str]:
    """Return the names of all payloads; what stands before the dot is the event."""
    return sorted(path.stem for path in PAYLOADS.glob("*.json"))


def event_of(name: str) -> str:
    """Return the event that a payload is of."""
    return name.split(".")[0]


def payload(name: str, overrides: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return a payload, its fields changed by dotted paths such as `pull_request.head.sha`."""
    loaded: dict[str, Any] = json.loads((PAYLOADS / f"{name}.json").read_text(encoding="utf-8"))
    return changed(loaded, overrides or {})


def changed(data: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with values set by dotted paths."""
    result = copy.deepcopy(dict(data))
    for path, value in overrides.items():
        *parents, last = path.split(".")
        place = result
        for parent in parents:
            place = place[parent]
        place[last] = copy.deepcopy(value)
    return result


def variables(name: str) -> dict[str, str]:
    """Return the runner's variables for a payload, without the file."""
    event = event_of(name)
    sha, ref = _CHECKOUTS.get(name) or _CHECKOUTS.get(event) or (BASE, "refs/heads/main")
    server, api = "https://github.com", "https://api.github.com"
    if name.endswith(".enterprise"):
        server, api = "https://ghe.example", "https://ghe.example/api/v3"
    return {
        "GITHUB_EVENT_NAME": event,
        "GITHUB_SHA": sha,
        "GITHUB_REF": ref,
        "GITHUB_REPOSITORY": "octo/shop",
        "GITHUB_ACTOR": "dependabot[bot]" if name.endswith(".dependabot") else "alice",
        "GITHUB_RUN_ID": RUN,
        "GITHUB_RUN_ATTEMPT": "1",
        "GITHUB_SERVER_URL": server,
        "GITHUB_API_URL": api,
        "GITHUB_WORKFLOW": "Evaluate",
        "GITHUB_JOB": "evaluate",
        "GITHUB_WORKFLOW_REF": f"octo/shop/.github/workflows/evaluate.yml@{ref}",
    }


def event_environ(
    name: str, folder: Path, *, overrides: Mapping[str, Any] | None = None, **more: str
) -> dict[str, str]:
    """Write an event's file and return the runner's variables.

    Args:
        name: a payload's name.
        folder: where `event.json` is written.
        overrides: values of the payload by dotted paths.
        more: variables that are other than the payload's usual ones, such as `GITHUB_API_URL`.
    """
    file = folder / "event.json"
    file.write_text(json.dumps(payload(name, overrides)), encoding="utf-8")
    return {**variables(name), "GITHUB_EVENT_PATH": str(file), **more}
