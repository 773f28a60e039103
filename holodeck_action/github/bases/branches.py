"""What stands on a branch of a repository."""

from __future__ import annotations

from collections.abc import Sequence

from holodeck_action.github.rest.api import Api
from holodeck_action.github.rest.objects import ApiError
from holodeck_action.github.rest.stored_objects import TreeEntry


def head_of(api: Api, name: str) -> str | None:
    """Return the commit that a branch names; None where there is no branch.

    Raises:
        ApiError: GitHub did not tell.
    """
    try:
        return api.branch(name)
    except ApiError as error:
        if error.kind == "not_found":
            return None
        raise


def entries_of(api: Api, name: str) -> Sequence[TreeEntry] | None:
    """Return everything that stands on a branch; None where there is no branch.

    Raises:
        ApiError: GitHub did not tell, or it is too much for one answer.
    """
    head = head_of(api, name)
    return None if head is None else api.tree(api.tree_of(head))
