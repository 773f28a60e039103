"""All features that start code of the checkout, as docs/security.md lists them."""

from __future__ import annotations

from typing import NamedTuple

from holodeck_action.record.closure import KindName


class CodeStarter(NamedTuple):
    """A feature that starts code of the checkout, for the table in docs/security.md.

    Attributes:
        feature: the feature, with the keys and flags that enable it.
        starts: the process that the feature starts, and when.
        kind: what it is to the verdict of a run; None if no run uses it.
    """

    feature: str
    starts: str
    kind: KindName | None


CODE_STARTERS = (
    CodeStarter(
        "Python targets: `python:MODULE:CALLABLE`",
        "a worker, at the check before a run and for conversations",
        "tested",
    ),
    CodeStarter("agents of frameworks: `langgraph:MODULE:AGENT`, …", "a worker, as for Python targets", "tested"),
    CodeStarter("command targets: `command:CMD`", "the program, for each conversation", "tested"),
    CodeStarter("warm-ups: `warm_up`", "nothing more: the target is called once more", "tested"),
    CodeStarter("code graders: `grader`", "a worker, when the suite is loaded and for each turn", "grading code"),
    CodeStarter(
        "own metrics: `metric: MODULE:CLASS`", "a worker, at the check before a run and for each turn", "grading code"
    ),
    CodeStarter(
        "custom summaries: `gates.summary.function`",
        "a worker, when the suite is loaded and for the verdict",
        "grading code",
    ),
    CodeStarter(
        "cases of a function: `test_cases_file: python:…`", "a worker, when the suite is loaded", "grading code"
    ),
    CodeStarter(
        "function tools: `type: function`", "a worker, at the check before a run and for each conversation", "tested"
    ),
    CodeStarter("MCP servers: `type: mcp`, `transport: stdio`", "the program, for the run", "tested"),
    CodeStarter(
        "the Python of the code: `environment.interpreter`",
        "it, to learn its version, and as the Python of workers",
        "surroundings",
    ),
    CodeStarter("packages: `environment`, `--requirements`", "uv, which runs build code of packages", "surroundings"),
    CodeStarter(
        "comparison suites: `against`, `merge-base`", "all of the above, of another suite or another commit", "tested"
    ),
    CodeStarter("imports: `import` of Python, `--prove`", "its tests or tasks; promptfoo and imported graders", None),
)
"""All features that start code of the checkout."""
