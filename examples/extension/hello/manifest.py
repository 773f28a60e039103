"""The manifest of the extension `hello`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Extension, Table

EXTENSION = Extension(
    name="hello",
    help="A greeting.",
    commands=(Command(name="greet", help="Greet SOMEBODY", to="hello.command:greet", group="Look"),),
    tables=(Table(suffix=".words", rows="hello.cases:rows"),),
)
