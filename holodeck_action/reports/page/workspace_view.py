"""The changed files of a coding agent's workspace, as the viewer's page embeds them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def workspace_view(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changed files of a turn, each with its part of the difference (see `Workspace` in `data.ts`)."""
    rest = f"\n{facts.get('difference') or ''}\n"
    files: list[dict[str, Any]] = []
    for entry in reversed([each for each in facts.get("changed") or () if not each.get("ignored")]):
        path = str(entry["path"])
        # The last one: a text may have the same lines.
        rest, header, lines = rest.rpartition(f"\n--- a/{path}\n+++ b/{path}\n")
        rest = f"{rest}\n" if header else lines
        files.append({"path": path, "change": entry["change"], "difference": lines.rstrip("\n") if header else None})
    return {"files": files[::-1], "cut": bool(facts.get("difference_cut")), "kept": facts.get("kept")}
