"""The manifest of the extension `gitlab`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(
    name="gitlab",
    help="The report as a note on GitLab's merge requests: `publish --to gitlab`.",
    services={"gitlab": "holodeck_action.extensions.gitlab.note:NotePublisher"},
)
