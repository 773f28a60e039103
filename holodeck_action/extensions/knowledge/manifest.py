"""The manifest of the extension `knowledge`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Tool

_DOCUMENTS = "holodeck_action.extensions.knowledge.searching:document_names"

EXTENSION = Extension(
    name="knowledge",
    help="Search in documents as a tool of the suite's own model.",
    tools=(
        Tool(
            type="vectorstore",
            build="holodeck_action.extensions.knowledge.vectorstore:build",
            documents=_DOCUMENTS,
        ),
        Tool(
            type="hierarchical_document",
            build="holodeck_action.extensions.knowledge.hierarchical:build",
            documents=_DOCUMENTS,
        ),
    ),
)
