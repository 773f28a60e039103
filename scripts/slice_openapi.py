"""Cuts GitHub's OpenAPI description to the calls that the tests' fake GitHub supports.

    python -m scripts.slice_openapi IN.json tests/github/data/github-openapi-slice.json.gz

IN.json is `generated/api.github.com.json` of the npm package @octokit/openapi. The same description gives the same
bytes. A component is kept if one of the calls refers to it.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

_REPO = "/repos/{owner}/{repo}"
OPERATIONS: Mapping[str, tuple[str, ...]] = {
    "/meta": ("get",),
    "/user": ("get",),
    "/rate_limit": ("get",),
    _REPO: ("get",),
    f"{_REPO}/check-runs": ("post",),
    f"{_REPO}/check-runs/{{check_run_id}}": ("get", "patch"),
    f"{_REPO}/check-runs/{{check_run_id}}/annotations": ("get",),
    f"{_REPO}/commits": ("get",),
    f"{_REPO}/commits/{{ref}}": ("get",),
    f"{_REPO}/commits/{{ref}}/check-runs": ("get",),
    f"{_REPO}/commits/{{commit_sha}}/branches-where-head": ("get",),
    f"{_REPO}/commits/{{commit_sha}}/pulls": ("get",),
    f"{_REPO}/issues": ("get", "post"),
    f"{_REPO}/issues/{{issue_number}}": ("get", "patch"),
    f"{_REPO}/issues/{{issue_number}}/comments": ("get", "post"),
    f"{_REPO}/issues/comments/{{comment_id}}": ("get", "patch", "delete"),
    f"{_REPO}/pulls": ("get",),
    f"{_REPO}/pulls/{{pull_number}}": ("get",),
    f"{_REPO}/pulls/{{pull_number}}/files": ("get",),
    f"{_REPO}/pulls/{{pull_number}}/reviews": ("get", "post"),
    f"{_REPO}/pulls/{{pull_number}}/reviews/{{review_id}}": ("get", "put"),
    f"{_REPO}/pulls/{{pull_number}}/comments": ("get", "post"),
    f"{_REPO}/pulls/comments/{{comment_id}}": ("get", "patch", "delete"),
    f"{_REPO}/actions/runs/{{run_id}}": ("get",),
    f"{_REPO}/actions/artifacts": ("get",),
    f"{_REPO}/actions/runs/{{run_id}}/artifacts": ("get",),
    f"{_REPO}/actions/artifacts/{{artifact_id}}/{{archive_format}}": ("get",),
    f"{_REPO}/compare/{{basehead}}": ("get",),
    f"{_REPO}/contents/{{path}}": ("get", "put"),
    f"{_REPO}/statuses/{{sha}}": ("post",),
    f"{_REPO}/git/blobs": ("post",),
    f"{_REPO}/git/blobs/{{file_sha}}": ("get",),
    f"{_REPO}/git/commits": ("post",),
    f"{_REPO}/git/commits/{{commit_sha}}": ("get",),
    f"{_REPO}/git/ref/{{ref}}": ("get",),
    f"{_REPO}/git/refs": ("post",),
    f"{_REPO}/git/refs/{{ref}}": ("patch",),
    f"{_REPO}/git/trees": ("post",),
    f"{_REPO}/git/trees/{{tree_sha}}": ("get",),
}
_KEPT = ("openapi", "info", "servers", "tags", "externalDocs")


class SliceError(Exception):
    """A call or component is missing in the description; the message names it."""


def cut_description(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description with only `OPERATIONS` and the components to which they refer.

    Raises:
        SliceError: a call or component is missing in the description.
    """
    paths: dict[str, Any] = {}
    for path, methods in OPERATIONS.items():
        item = description["paths"].get(path, {})
        if missing := [method for method in methods if method not in item]:
            raise SliceError(f"{path}: the description has no {', '.join(missing)}: change OPERATIONS")
        paths[path] = {name: value for name, value in item.items() if name in (*methods, "parameters")}
    components = _referenced_components(paths, description["components"])
    kept = {name: description[name] for name in _KEPT if name in description}
    return {**kept, "paths": paths, "components": components}


def _referenced_components(start: Any, available: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if isinstance(node, list):
            waiting += node
        elif isinstance(node, dict):
            waiting += node.values()
            reference = node.get("$ref")
            # In an example, a property with this name need not be a reference.
            if isinstance(reference, str) and reference.startswith("#/components/"):
                _, _, kind, name = reference.split("/")
                if name not in available.get(kind, {}):
                    raise SliceError(f"{reference}: the description refers to it and does not have it")
                if name not in found.setdefault(kind, {}):
                    found[kind][name] = available[kind][name]
                    waiting.append(available[kind][name])
    return {kind: dict(sorted(names.items())) for kind, names in sorted(found.items())}


@click.command()
@click.argument("source", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("target", type=click.Path(dir_okay=False, path_type=Path))
def main(source: Path, target: Path) -> None:
    """Cut the description SOURCE to TARGET."""
    try:
        text = json.dumps(cut_description(json.loads(source.read_text(encoding="utf-8"))), separators=(",", ":"))
    except SliceError as error:
        raise click.ClickException(str(error)) from None
    target.write_bytes(gzip.compress(text.encode(), mtime=0))
    click.echo(f"{target}: {len(OPERATIONS)} paths, {len(text):,} characters")


if __name__ == "__main__":
    main()
