"""The entry point of the pytest plugin. Every pytest of an environment imports it: it imports nothing else until
`--holodeck` is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("holodeck-action")
    group.addoption("--holodeck", action="store_true", help="Collect the cases of agent.yaml suites.")
    group.addoption("--holodeck-args", metavar="ARGS", default="", help="Further arguments of holodeck-action run.")
    group.addoption("--holodeck-output", metavar="DIR", help="Keep the results of each suite in a folder below DIR.")


def pytest_configure(config: pytest.Config) -> None:
    """Register the rest of the plugin if it is used."""
    if config.getoption("holodeck"):
        from holodeck_action.extensions.pytest_plugin.suites import SuitePlugin

        config.pluginmanager.register(SuitePlugin(config), "holodeck-suites")
