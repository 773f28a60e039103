"""The permissions that suites get from the workflow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


class Permissions(Struct, frozen=True):
    """Permissions beyond their checkout that suites get from the workflow (a suite cannot grant them itself).

    `paths` are further folders whose files they may read; `plain_http` lets keys go to other machines unencrypted;
    `unsafe_forks` lets a fork's code run although the job has secrets.
    """

    paths: tuple[GivenPath, ...] = ()
    plain_http: bool = False
    unsafe_forks: bool = False

    def __post_init__(self) -> None:
        """Check the folders.

        Raises:
            ConfigurationError: a path is not a folder.
        """
        if wrong := [path for path in self.paths if not path.path.is_dir()]:
            raise ConfigurationError(
                [f"{path}: the folder, which --allow-path names, does not exist" for path in wrong]
            )


NO_PERMISSIONS = Permissions()


def permissions_from(values: Mapping[str, Any]) -> Permissions:
    """Return the permissions from values by setting name."""
    return Permissions(
        tuple(values.get("allow_paths") or ()),
        bool(values.get("allow_plain_http")),
        bool(values.get("allow_unsafe_forks")),
    )
