"""All features that start code of the checkout, as docs/security.md lists them."""

from __future__ import annotations

from typing import NamedTuple


class CodeStarter(NamedTuple):
    """A feature that starts code of the checkout, for the table in docs/security.md.

    Attributes:
        feature: the feature, with the keys and flags that enable it.
        starts: the process that the feature starts, and when.
    """

    feature: str
    starts: str


CODE_STARTERS = (
    CodeStarter(
        "Python targets: `python:MODULE:CALLABLE`", "a worker, at the check before a run and for conversations"
    ),
    CodeStarter("agents of frameworks: `langgraph:MODULE:AGENT`, …", "a worker, as for Python targets"),
    CodeStarter("command targets: `command:CMD`", "the program, for each conversation"),
    CodeStarter("warm-ups: `warm_up`", "nothing more: the target is called once more"),
    CodeStarter("code graders: `grader`", "a worker, when the suite is loaded and for each turn"),
    CodeStarter("own metrics: `metric: MODULE:CLASS`", "a worker, at the check before a run and for each turn"),
    CodeStarter("custom summaries: `gates.summary.function`", "a worker, when the suite is loaded and for the verdict"),
    CodeStarter("cases of a function: `test_cases_file: python:…`", "a worker, when the suite is loaded"),
    CodeStarter("function tools: `type: function`", "a worker, at the check before a run and for each conversation"),
    CodeStarter("MCP servers: `type: mcp`, `transport: stdio`", "the program, for the run"),
    CodeStarter(
        "the Python of the code: `environment.interpreter`", "it, to learn its version, and as the Python of workers"
    ),
    CodeStarter("packages: `environment`, `--requirements`", "uv, which runs build code of packages"),
    CodeStarter("comparison suites: `against`, `merge-base`", "all of the above, of another suite or another commit"),
    CodeStarter("proofs: `import --prove`", "promptfoo, as installed, and the graders that are imported"),
)
"""All features that start code of the checkout."""
