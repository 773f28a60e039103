"""Suites written to disk and loaded through the public door."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.values import Suite

HEAD = """\
name: support
model: {provider: ollama, name: llama}
instructions: {inline: Answer.}
"""
"""The first three lines of an agent.yaml."""

EQUALITY = "evaluations: {metrics: [{type: standard, metric: equality}]}\n"

CASE = "test_cases: [{input: hi, ground_truth: hello}]\n"


def write(folder: Path, files: Mapping[str, str | bytes]) -> Path:
    """Write files below a folder; returns its agent.yaml."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder / "agent.yaml"


def load(
    folder: Path,
    agent: str | bytes,
    files: Mapping[str, str | bytes] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
    allow_empty: bool = False,
) -> Suite:
    """Load an agent.yaml with the files beside it."""
    path = write(folder, {"agent.yaml": agent, **(files or {})})
    return load_suite(path, environ=environ or {}, home=home, metrics=built_in(), allow_empty=allow_empty)


def load_policy_of(folder: Path, agent: str, policy: str, *, environ: Mapping[str, str] | None = None) -> Suite:
    """Load an agent.yaml with a policy file."""
    return load(folder, agent, {"holodeck-action.yaml": policy}, environ=environ)


def complaints(
    folder: Path,
    agent: str | bytes,
    files: Mapping[str, str | bytes] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    home: Path | None = None,
) -> list[str]:
    """The problems of a suite as they are printed; none when it loads."""
    try:
        load(folder, agent, files, environ=environ, home=home)
    except SuiteError as error:
        return str(error).splitlines()
    return []
