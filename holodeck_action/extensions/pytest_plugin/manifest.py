"""The manifest of the extension `pytest_plugin`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension

EXTENSION = Extension(name="pytest_plugin", help="Cases of suites as tests of pytest: `pytest --holodeck agent.yaml`.")
