"""The live variants of the examples: the suite's own model with its tools, replayed from the shipped cassettes."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.examples.test_examples import EXAMPLES, FINANCIAL, RETRIEVAL, SUPPORT, Example

ALL = [pytest.param(example, id=example.name) for example in (SUPPORT, FINANCIAL, RETRIEVAL)]
FURTHER = {
    "retrieval": {
        "carrying-leave-over",
        "price-of-a-hotel",
        "visa-for-india",
        "own-car-or-train",
        "lost-receipt",
        "mileage",
        "a-welder-s-first-day",
    }
}
"""Cases that fail live alone."""


@pytest.fixture
def copied(project: Project, example: Example) -> Project:
    shutil.copytree(EXAMPLES / example.name, project.folder, dirs_exist_ok=True)
    return project


def replayed(project: Project, cassette: str = "cassette") -> tuple[Finished, Record]:
    return project.evaluate(
        *("--target", "model", "--replay", cassette), OPENAI_BASE_URL="http://localhost/v1", OPENAI_API_KEY=""
    )


@dataclass(frozen=True)
class Replay:
    """A replay of an example as it is shipped."""

    example: Example
    project: Project
    finished: Finished
    record: Record


@pytest.fixture(scope="module", params=ALL)
def replay(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Replay:
    """A replay of each example; nothing may change its folder."""
    example: Example = request.param
    folder = tmp_path_factory.mktemp(example.name)
    shutil.copytree(EXAMPLES / example.name, folder, dirs_exist_ok=True)
    return Replay(example, Project(folder), *replayed(Project(folder)))


@pytest.mark.full
def test_a_replay_fails_where_the_example_does(replay: Replay) -> None:
    example, finished, record = replay.example, replay.finished, replay.record
    assert finished.code == 1, finished.stdout + finished.stderr
    outcomes = {case["id"]: case["outcome"] for case in replay.project.verdict()["cases"]}
    assert "error" not in outcomes.values()
    failed = {name for name, outcome in outcomes.items() if outcome == "failed"}
    assert failed == set(example.failed) | FURTHER.get(example.name, set())
    turns = [turn for case in record.cases for trial in case.trials for turn in trial.turns]
    assert all(turn.usage is not None and turn.usage.cost_usd for turn in turns)
    calls = [call for turn in turns for call in turn.tool_invocations or ()]
    assert len(calls) > 10
    if example.name == "retrieval":
        assert any(turn.retrieved_chunks for turn in turns)


@pytest.mark.full
def test_a_cassette_holds_what_the_replay_asks_for_and_says_where_it_is_from(replay: Replay, tmp_path: Path) -> None:
    copied = replay.project.copy_to(tmp_path)
    cassette = copied.folder / "cassette"
    calls = replay.record.run.model_calls
    assert calls is not None
    assert (calls.failed, calls.requests) == (0, 0)
    recorded = cassette / "cassette.jsonl"
    lines = recorded.read_bytes().splitlines(keepends=True)
    assert 20 < len(lines) <= calls.calls
    assert "scripted server" in (cassette / "README.md").read_text(encoding="utf-8")
    assert {json.loads(line)["request"]["endpoint"].split("/")[0] for line in lines} == {"localhost"}
    # Take one away, and the replay says what it misses.
    recorded.write_bytes(b"".join(lines[1:]))
    finished, _ = replayed(copied)
    assert "cassette" in finished.stdout + finished.stderr


@pytest.mark.parametrize("example", [pytest.param(SUPPORT, id="support")])
def test_a_changed_character_of_a_prompt_is_told(copied: Project, example: Example) -> None:
    instructions = copied.folder / "instructions.md"
    text = instructions.read_text(encoding="utf-8")
    instructions.write_text(text.replace("Larkfield", "Larkfeld", 1), encoding="utf-8")
    finished, record = replayed(copied)
    assert finished.code == 3, finished.stdout
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == "cassette_miss"
    assert "Larkfeld" in error.message
    assert "Larkfield" in error.message


def test_the_cassettes_are_small() -> None:
    sizes = [path.stat().st_size for path in Path(EXAMPLES).rglob("cassette/cassette.jsonl")]
    assert len(sizes) == 4
    assert sum(sizes) < 2_000_000
