"""Reads the head and the files of a branch of a repository."""

from __future__ import annotations

from collections.abc import Sequence

from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.stored_objects import TreeEntry


def head_of(api: Api, name: str) -> str | None:
    """Return the hash of a branch's newest commit; None if there is no such branch.

    Raises:
        ApiError: GitHub gave no answer.
    """
    try:
        return api.branch(name)
    except ApiError as error:
        if error.kind == "not_found":
            return None
        raise


def entries_of(api: Api, name: str) -> Sequence[TreeEntry] | None:
    """Return the entries of a branch's tree; None if there is no such branch.

    Raises:
        ApiError: GitHub gave no answer, or the tree is too large for one answer.
    """
    head = head_of(api, name)
    return None if head is None else api.tree(api.tree_of(head))
