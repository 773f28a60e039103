"""The documentation says what is true: its examples run, its links resolve, its tests exist."""

from __future__ import annotations

import ast
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from holodeck_action.metrics.registry import built_in
from tests.commands.project import Project
from tests.docs.pages import blocks
from tests.docs.texts import GAP, texts_of_the_program
from tests.tables import walk

ROOT = Path(__file__).parents[2]
DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")), *DOCS]
KINDS = {"yaml": ("fragment", "agent.yaml", "holodeck-action.yaml"), "console": ("", "norun")}


def _anchor(heading: str) -> str:
    """The anchor GitHub makes of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def _anchors(page: Path) -> frozenset[str]:
    return frozenset(
        _anchor(line.lstrip("#")) for line in page.read_text(encoding="utf-8").splitlines() if line[:1] == "#"
    )


@walk("page", PAGES)
def test_links_resolve(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = (page.parent / file).resolve() if file else page
        assert linked.exists(), f"{page.name}: {target}"
        assert not anchor or anchor in _anchors(linked), f"{page.name}: {target}"


@walk("page", DOCS)
def test_every_block_says_whether_it_is_a_whole_file(page: Path) -> None:
    for block in blocks(page):
        allowed = KINDS.get(block.language)
        assert allowed is None or block.mark in allowed, f"{page.name}:{block.line}: {block.language} {block.mark}"


@pytest.mark.needs
@pytest.mark.parametrize("page", [page for page in DOCS if blocks(page)], ids=lambda page: str(page.name))
def test_examples_are_valid_and_do_what_the_page_says(page: Path, project: Project) -> None:
    """Whole files are written as they come; suites are validated, commands run and compared with what is shown."""
    for block in blocks(page):
        where = f"{page.name}:{block.line}"
        if block.mark not in ("", "fragment", "norun"):
            if block.mark == "agent.yaml":
                (project.folder / "holodeck-action.yaml").unlink(missing_ok=True)
            project.write(block.mark, block.text)
            if block.language == "yaml":
                finished = project.run("validate")
                assert finished.code == 0, f"{where}: {finished.stderr}"
        elif block.language == "console" and block.mark == "":
            command, *shown = block.text.splitlines()
            program, *arguments = shlex.split(command.removeprefix("$ "))
            assert program == "holodeck-action", where
            finished = project.run(*arguments)
            assert "\n".join(shown) in finished.stdout, f"{where}: {finished.stdout}{finished.stderr}"


def test_every_option_is_documented(project: Project) -> None:
    # The reference is made of the options' own help.
    documented = "".join(page.read_text(encoding="utf-8") for page in DOCS if page.name != "fields.md")
    for command in ("run", "validate", "gate", "schema"):
        shown = project.run(command, "--help-all" if command in ("run", "gate") else "--help").stdout
        options = set(re.findall(r"--[a-z][a-z-]+", shown)) - {"--help"}
        missing = [option for option in sorted(options) if not re.search(rf"`[^`]*{option}\b(?!-)[^`]*`", documented)]
        assert not missing, f"{command}: {missing}"


@cache
def _tests_of(file: Path) -> frozenset[str]:
    tree = ast.parse(file.read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.full
def test_every_row_of_the_compatibility_table_names_tests_that_exist() -> None:
    page = (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8")
    rows = [line for line in page.splitlines() if line.startswith("| ") and not line.startswith("| HoloDeck")]
    assert len(rows) > 30
    for row in rows:
        named = re.findall(r"`([\w/]+\.py)::(\w+)`", row.rstrip("| ").rpartition(" | ")[2])
        assert named, row
        for file, name in named:
            assert name in _tests_of(ROOT / "tests" / file), f"{file}::{name}"


@pytest.mark.needs
def test_every_fact_of_the_readme_names_a_test_or_a_measurement() -> None:
    table = (ROOT / "README.md").read_text(encoding="utf-8").partition("| fact | proof |\n|---|---|\n")[2]
    rows = [line.strip("| ").split(" | ") for line in table.partition("\n\n")[0].splitlines()]
    measured = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8").partition("## Other programs")[2]
    columns = ("cases", "at once", "ours", "promptfoo", "inspect", "deepeval")
    assert "| " + " | ".join(columns) in measured
    assert len(rows) > 10
    for fact, proof in rows:
        if found := re.fullmatch(r"`bench/peers\.py`: ([\d,]+) cases, (\d+) at once", proof):
            assert (ROOT / "bench" / "peers.py").exists()
            [row] = re.findall(rf"^\| {found[1]} \| {found[2]} \| (.*)$", measured, re.MULTILINE)
            took = dict(zip(columns[2:], row.split(" | "), strict=False))
            for name, times in re.findall(r"(promptfoo|Inspect|DeepEval)(?: takes)? ([\d.]+ ×)", fact):
                assert took[name.lower()] == times, fact
            assert all(seconds == took["ours"] for seconds in re.findall(r"take ([\d.]+ s)", fact)), fact
            assert len(re.findall(r"[\d.]+ ×", fact)) == 3, fact
        else:
            named = re.findall(r"`([\w/]+\.py)::(\w+)`", proof)
            assert named, fact
            assert [f"{file}::{name}" for file, name in named if name not in _tests_of(ROOT / "tests" / file)] == []


def test_the_failing_case_of_the_readme_is_what_the_support_example_prints() -> None:
    [shown] = [block.text for block in blocks(ROOT / "README.md") if block.language == "text"]
    printed = Project(ROOT).run("run", "examples/support/agent.yaml").stdout
    for excerpt in shown.split("…\n"):
        assert f"\n{excerpt.strip()}\n" in printed


ODD = r"left out\b|nobody (is|was) asked|asked nobody|stands? there|is told\b|what is not known|for ever\b|but for\b"
"""Words of a translation: the field says skipped, omitted, not evaluated, called, unknown, except."""


@walk("page", PAGES)
def test_pages_use_the_words_of_the_field(page: Path) -> None:
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert [found[0] for found in re.finditer(ODD, text)] == []


def test_the_changelog_knows_the_version() -> None:
    from holodeck_action import __version__

    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.full
def test_every_message_of_the_troubleshooting_page_is_one_of_the_product() -> None:
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quoted = re.findall(r"^\| `(.+?)` \| ", page, re.MULTILINE)
    assert len(quoted) > 50
    assert [
        message for message in quoted if not any(message.strip(GAP) in text for text in texts_of_the_program())
    ] == []


def test_the_page_on_metrics_has_a_row_for_every_type() -> None:
    rows = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8").partition("\n\n## ")[0]
    documented = {
        name for first in re.findall(r"^\| (`[^|]+) \|", rows, re.MULTILINE) for name in re.findall(r"`(\w+)`", first)
    }
    assert sorted(built_in().classes.keys() - documented) == []


_RAG = {"answer_relevancy", "faithfulness", "contextual_relevancy", "contextual_precision", "contextual_recall"}


def _judged(name: str) -> dict[str, object]:
    """Return a metric as the page names it, graded by a model of the same name."""
    kind: dict[str, object] = {"type": "rag", "metric_type": name} if name in _RAG else {"type": name}
    if name.endswith("Metric"):
        kind = {"type": "deepeval", "metric": name}
    if name.endswith("Evaluator"):
        kind = {"type": "azure", "metric": name}
    if name == "RoleAdherenceMetric":
        kind["options"] = {"chatbot_role": "clerk"}
    if name == "geval":
        kind |= {"name": "tone", "criteria": "It is polite.", "evaluation_steps": ["Look for rude words."]}
    return {**kind, "model": {"provider": "openai", "name": name}}


@pytest.mark.needs
def test_the_judge_calls_of_the_page_on_choosing_metrics_are_those_of_the_plan(project: Project) -> None:
    page = (ROOT / "docs" / "choosing-metrics.md").read_text(encoding="utf-8")
    rows = page.partition("## With a judge\n")[2].partition("\n\n*")[0]
    # A row of a metric that reads texts counts those of one text.
    documented = {
        name: sum(map(int, re.findall(r"\d+", calls)))
        for name, calls in re.findall(r"^\|.*\[`(\w+)`\].*\| ([^|]+) \|$", rows, re.MULTILINE)
    }
    assert len(documented) > 15
    case = {"name": "a", "input": "Hello?", "ground_truth": "Hi.", "expected_tools": ["greet"]}
    metrics = [_judged(name) for name in documented]
    project.suite(cases=[case], metrics=metrics)
    planned = project.run("run", "--dry-run", OPENAI_API_KEY="sk-none").stdout.partition("by judges")[2]
    assert {name: int(count) for count, name in re.findall(r"(\d+) calls? of openai/(\w+)", planned)} == documented
