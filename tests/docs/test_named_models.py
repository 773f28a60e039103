"""All models that documentation, examples, starter and messages name are in one table, priced, and stay for a year."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from holodeck_action.llm.usage import cost_usd
from holodeck_action.suite.model.named_models import MODEL_MARK, NAMED
from holodeck_action.suite.model.providers import COMPATIBLE
from tests.commands.project import Project
from tests.docs.pages import ROOT

REMOVALS = yaml.safe_load(Path(__file__).with_name("removals.yaml").read_text(encoding="utf-8"))
YEAR = datetime.timedelta(days=365)
FOLDERS = ("docs", "examples", "holodeck_action", "templates", "schemas", "README.md", "action.yml")
ELSEWHERE = (
    "docs/conformance",  # quotes the documents of others
    "holodeck_action/llm",  # has rules for families of models, old ones included
    "holodeck_action/metrics/data",
)
KINDS = {".md", ".yaml", ".yml", ".py", ".pyi", ".txt", ".json", ".jsonl", ".j2", ".patch", ".ipynb"}
NAME = re.compile(
    r"(?<![\w.])(?:(?:[a-z]+/)?"
    r"(?:(?:gpt-(?:oss|\d)|chatgpt-|claude-(?:\d|opus|sonnet|haiku|fable)|gemini-\d|gemini-embedding|deepseek-[a-z]|"
    r"mistral-[a-z]|llama-?\d|command-[ar]|text-embedding-)[\w.:-]*\w|o[1-9](?:-(?:mini|pro))?(?![\w.*:-]))"
    r")(?![\w/])"
)
"""Names that only models have."""
PAIR = re.compile(r"provider\W{1,4}([a-z_]+)\W{1,12}name\W{1,4}([\w./:-]*\w)(?![\w./:-])(?![\"', ]*endpoint)")
"""Provider and name of a model in YAML and JSON. A server with its own endpoint has its own names."""
UNPRICED = {"ollama", *(name for name, service in COMPATIBLE.items() if not service.priced_as)}


def names(text: str) -> Iterator[str]:
    """Yield the models that a text names."""
    for found in NAME.finditer(text):
        yield found[0]
    for provider, name in PAIR.findall(text):
        if provider in NAMED and name != MODEL_MARK:
            yield name


def texts() -> Iterator[tuple[str, str]]:
    """Yield each place and its text; code without its keywords."""
    for place in FOLDERS:
        root = ROOT / place
        for path in sorted(root.rglob("*")) if root.is_dir() else [root]:
            there = path.relative_to(ROOT).as_posix()
            if path.suffix in KINDS and path.is_file() and not there.startswith(ELSEWHERE):
                text = path.read_text(encoding="utf-8")
                yield there, re.sub(r"\bprovider\b", "", text) if path.suffix == ".py" else text


def removal(name: str, removed: dict[str, datetime.date]) -> datetime.date | None:
    """Return the day on which a model is removed; None if none is announced."""
    bare = name.rpartition("/")[2]
    starts = [start for start in removed if bare == start or bare.startswith((f"{start}-", f"{start}:"))]
    return removed[max(starts, key=len)] if starts else None


@pytest.mark.full
@pytest.mark.needs("start")
def test_every_named_model_is_in_the_table(project: Project) -> None:
    known = {name for models in NAMED.values() for name in models}
    known |= {f"{provider}/{name}" for provider, models in NAMED.items() for name in models}
    project.run("init")
    written = [(f"init: {path.name}", path.read_text(encoding="utf-8")) for path in project.folder.glob("*.yaml")]
    found = {(place, name) for place, text in (*texts(), *written) for name in names(text)}
    assert {place for place, _ in found} > {"init: agent.yaml", "examples/support/agent.yaml", "docs/fields.md"}
    others = sorted((place, name) for place, name in found if name not in known)
    assert not others, "\n".join(f"{place}: {name}" for place, name in others)
    used = {name.rpartition("/")[2] for _, name in found}
    assert [name for name in sorted(known) if name.rpartition("/")[2] not in used] == []


@pytest.mark.parametrize("provider", NAMED)
def test_named_models_are_priced_and_stay_for_a_year(provider: str) -> None:
    assert provider in REMOVALS["pages"], "unknown removals are not none"
    for name in NAMED[provider]:
        last = removal(name, REMOVALS["removed"])
        assert last is None or last >= REMOVALS["checked"] + YEAR, f"{name} is removed on {last}"
        # The list has no embeddings of OpenRouter.
        if provider not in UNPRICED and (provider, "embedding" in name) != ("openrouter", True):
            price = cost_usd(provider, name, prompt_tokens=1_000, completion_tokens=1_000)
            assert (price or 0) > 0, f"{name} has no price"


def test_a_removal_within_a_year_and_an_unknown_name_are_found() -> None:
    removed = REMOVALS["removed"]
    assert removal("openai/gpt-4o-mini", removed) == datetime.date(2027, 1, 14)
    assert removal("gpt-5.6-sol", removed) is None
    assert removal("gpt-5-mini", removed) == datetime.date(2026, 12, 11)
    text = 'model: {provider: groq, name: some-model}, "gpt-4o", ask o3-mini (claude-opus-4-1); gpt-6.1-sol.'
    assert set(names(text)) == {"some-model", "gpt-4o", "o3-mini", "claude-opus-4-1", "gpt-6.1-sol"}
