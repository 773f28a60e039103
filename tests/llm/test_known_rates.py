"""Rates of accounts that a run leaves in its cache folder for the next one, and what is not believed there."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.commands.project import Project
from tests.llm.ahead import STARTED_AT, Service, at_most_per_second, run_ahead, wire_ahead
from tests.llm.models import KEY, FakeModels, Fault
from tests.llm.wiring import account, chat, post
from tests.targets.test_own import asking

MAX_RATE = 20
CALLS = 100


def ran(cache: Path | None, number: int, at_once: int, most: int = MAX_RATE) -> tuple[int, float]:
    """Ask questions that no earlier run has asked, an hour after it; return how many requests and seconds that took."""
    service = Service(at_most_per_second(most, "1"), 0.004)

    async def work() -> None:
        wire = wire_ahead(service, at_once, STARTED_AT + timedelta(hours=number), cache=cache)
        calls = (post(wire, account("http://x/v1"), chat(f"run {number}, question {call}")) for call in range(CALLS))
        assert {answer.status_code for answer in await asyncio.gather(*calls)} == {200}
        await wire.close()

    _, seconds = run_ahead(work)
    return service.requests, seconds


def kept(cache: Path) -> list[Path]:
    return sorted((cache / "rates").glob("*"))


@pytest.fixture(scope="module")
def once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache folder that one run has used."""
    folder = tmp_path_factory.mktemp("once")
    ran(folder, 0, 20)
    return folder


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> tuple[int, float]:
    """What a run takes whose cache folder is empty."""
    return ran(tmp_path_factory.mktemp("unused"), 1, 20)


@pytest.mark.parametrize("at_once", [20, 100])
def test_a_second_run_starts_at_the_rate_that_the_first_one_found(tmp_path: Path, at_once: int) -> None:
    first, _ = ran(tmp_path, 0, at_once)
    assert first > 1.1 * CALLS
    for number in (1, 2, 3):
        again, seconds = ran(tmp_path, number, at_once)
        print(number, again, seconds)
        assert again <= 1.1 * CALLS
        assert seconds <= 1.15 * CALLS / MAX_RATE
    assert len(kept(tmp_path)) == 1
    assert "x/v1" not in kept(tmp_path)[0].read_text()


def test_a_rate_is_only_a_start(tmp_path: Path) -> None:
    """An account whose limit has been raised since is used, and one whose limit has been lowered is not stormed."""
    ran(tmp_path, 0, 100)
    for number, most in enumerate((200, 60, 10, 40), start=1):
        requests, seconds = ran(tmp_path, number, 100, most)
        print(most, requests, seconds)
        assert requests <= 1.2 * CALLS
        assert seconds <= max(6.5, 1.25 * CALLS / most)


@pytest.mark.parametrize("rate", [20, 60, 1_000])
@pytest.mark.parametrize("most", [5, 10])
def test_a_rate_that_is_too_high_costs_less_than_none(tmp_path: Path, once: Path, rate: float, most: int) -> None:
    shutil.copytree(once, tmp_path / "cache")
    (path,) = kept(tmp_path / "cache")
    path.write_text(written(rate))
    requests, seconds = ran(tmp_path / "cache", 1, 100, most)
    assert requests <= 1.3 * CALLS
    assert seconds <= 1.25 * CALLS / most


def test_without_a_cache_folder_nothing_is_kept(tmp_path: Path) -> None:
    assert ran(None, 0, 20)[0] > 1.1 * CALLS
    assert list(tmp_path.iterdir()) == []
    assert ran(None, 1, 20)[0] > 1.1 * CALLS


def written(rate: object = 2.0, at: object = None, **more: object) -> str:
    """Return a file of the run before the first one: of an hour before the run with number 1."""
    return json.dumps({"rate": rate, "at": at or STARTED_AT.isoformat(), **more})


def as_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def as_link(path: Path) -> None:
    other = path.parent.parent / "elsewhere"
    other.write_text(written())
    path.unlink()
    path.symlink_to(other)


def holding(content: Callable[[], str] | bytes) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content if isinstance(content, bytes) else content().encode())


@pytest.mark.parametrize(
    "spoil",
    [
        holding(b""),
        holding(b"\xff\x00{"),
        holding(lambda: written()[:-5]),
        holding(lambda: "[" * 900),
        holding(lambda: written() + " " * 2_000),
        holding(lambda: "2.0"),
        holding(lambda: written("2.0")),
        holding(lambda: written(None)),
        holding(lambda: written(0)),
        holding(lambda: written(0.5)),
        holding(lambda: written(-3)),
        holding(lambda: written(1_001)),
        holding(lambda: written(1e308)),
        holding(lambda: written(float("nan"))),
        holding(lambda: written(float("inf"))),
        holding(lambda: written(True)),
        holding(lambda: written(at="yesterday")),
        holding(lambda: written(at=1_700_000_000)),
        holding(lambda: written(at="2026-01-01T00:00:00")),
        holding(lambda: written(at="9999-12-31T23:59:59-23:59")),
        holding(lambda: written(at=(STARTED_AT - timedelta(hours=24)).isoformat())),
        holding(lambda: written(at=(STARTED_AT + timedelta(minutes=65)).isoformat())),
        holding(lambda: written(more=1)),
        as_folder,
        as_link,
    ],
)
def test_what_cannot_be_believed_is_as_if_it_were_missing(
    tmp_path: Path, once: Path, unknown: tuple[int, float], spoil: Callable[[Path], object]
) -> None:
    """Two requests a second would take 50 s."""
    shutil.copytree(once, tmp_path / "cache")
    (path,) = kept(tmp_path / "cache")
    spoil(path)
    assert ran(tmp_path / "cache", 1, 20) == unknown


def test_what_is_believed_counts(tmp_path: Path) -> None:
    ran(tmp_path, 0, 20)
    (path,) = kept(tmp_path)
    path.write_text(written())
    assert ran(tmp_path, 1, 20)[0] < 1.2 * CALLS


def test_a_run_of_the_command_leaves_a_rate_for_the_next_one(project: Project, models: FakeModels) -> None:
    """A run deletes the rate that it neither read nor found: the second one is not refused, and finds none."""
    stated = {f"x-ratelimit-{name}-requests": value for name, value in (("limit", "1200"), ("remaining", "0"))}
    models.fail(Fault("rate_limit", headers={**stated, "x-ratelimit-reset-requests": "1m0s"}))
    for number in range(2):
        # The answers are kept, too.
        texts = [f"question {case} of run {number}" for case in range(3)]
        asking(project, models, [{"input": text, "ground_truth": f"echo: {text}"} for text in texts])
        finished = project.run("run", "--cache", "cache", OPENAI_API_KEY=KEY)
        assert finished.code == 0, finished.stderr
        (path,) = kept(project.folder / "cache")
        assert set(json.loads(path.read_text())) == {"rate", "at"}
        assert KEY not in path.read_text()
    assert models.statuses == {200: 6, 429: 1}


@pytest.mark.parametrize("there", ["file", "folder without rights"])
def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, there: str) -> None:
    if there == "file":
        (tmp_path / "rates").write_text("")
    else:
        (tmp_path / "rates").mkdir(mode=0o500)
    assert ran(tmp_path, 0, 20)[1] <= 1.25 * CALLS / MAX_RATE
