"""The branch of results: writers at once, what stays and what goes, and what GitHub or others put in the way."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from holodeck_action.github.api import Api, connect
from holodeck_action.github.data_branch import Addition, BranchError, add_to_branch
from holodeck_action.github.objects import ApiError
from holodeck_action.github.stored_results import SuitePlace
from holodeck_action.results.history_layout import kept_commits, suite_key
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.workflow import BOT, REPOSITORY

TOKEN = "ghs_writer"
NAME = "holodeck-data"
REFERENCE = f"refs/heads/{NAME}"
SUITE = SuitePlace("agents/billing", "agent.yaml")
START = datetime(2026, 1, 5, tzinfo=UTC)


@pytest.fixture
def repo(hub: FakeGitHub) -> Repository:
    hub.add_token(TOKEN, Token(BOT, permissions={"contents": "write"}))
    repository = hub.add_repository(REPOSITORY)
    repository.git.refs["refs/heads/main"] = repository.git.commit({"agent.yaml": "0"})
    return repository


@pytest.fixture
def api(hub: FakeGitHub, repo: Repository) -> Iterator[Api]:
    with connect(TOKEN, hub.url, REPOSITORY, pause=lambda _: None) as api:
        yield api


def addition(number: int, suite: SuitePlace = SUITE, at: datetime = START) -> Addition:
    commit = f"{number:040x}"
    line = json.dumps({"commit": commit, "time": at.isoformat(), "suite": suite.file, "number": number})
    return Addition(commit, suite, f"results of {number}".encode(), line)


def add(api: Api, *additions: Addition) -> None:
    add_to_branch(api, NAME, additions, pause=lambda _: None)


def lines(repo: Repository) -> list[int]:
    content = repo.git.read(NAME, "history.jsonl")
    assert content is not None
    return [json.loads(line)["number"] for line in content.splitlines()]


def records(repo: Repository) -> list[str]:
    commit = repo.git.commits[repo.git.refs[REFERENCE]]
    return [path for path, _ in repo.git.files(commit.tree) if path.startswith("records/")]


def test_the_first_run_makes_the_branch(repo: Repository, api: Api) -> None:
    add(api, addition(1))
    head = repo.git.commits[repo.git.refs[REFERENCE]]
    assert head.parents == ()
    assert lines(repo) == [1]
    assert records(repo) == [
        f"records/{1:040x}/agents-billing-agent.yaml-{suite_key('agents/billing', 'agent.yaml')[-8:]}.json.gz"
    ]
    stored = repo.git.read(NAME, records(repo)[0])
    assert stored is not None
    assert gzip.decompress(stored) == b"results of 1"
    assert repo.git.merge_base(head.sha, repo.git.refs["refs/heads/main"]) is None


def test_runs_add_to_it(repo: Repository, api: Api) -> None:
    add(api, addition(1))
    first = repo.git.refs[REFERENCE]
    add(api, addition(2), addition(2, SuitePlace("", "agent.yaml")))
    assert repo.git.commits[repo.git.refs[REFERENCE]].parents == (first,)
    assert lines(repo) == [1, 2, 2]
    assert len(records(repo)) == 3
    # A second run of the same commit replaces its results.
    again = Addition(
        f"{1:040x}", SUITE, b"later", json.dumps({"commit": f"{1:040x}", "time": "2026-02-01T00:00:00Z", "number": 3})
    )
    add(api, again)
    assert lines(repo) == [1, 2, 2, 3]
    assert len(records(repo)) == 3


def test_twenty_writers_lose_no_line(repo: Repository, hub: FakeGitHub) -> None:
    """They all begin at once, before there is a branch; each waits a thousandth of what it would."""

    def write(number: int) -> None:
        with connect(TOKEN, hub.url, REPOSITORY, pause=lambda _: None) as api:
            add_to_branch(api, NAME, [addition(number)], pause=lambda seconds: time.sleep(seconds / 1000))

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(write, range(1, 21)))
    assert sorted(lines(repo)) == list(range(1, 21))
    assert len(records(repo)) == 20
    assert len(repo.git.ancestors(repo.git.refs[REFERENCE])) == 20


def test_an_answer_that_is_lost_adds_no_line_twice(repo: Repository, api: Api, hub: FakeGitHub) -> None:
    hub.fail(Fault("POST", "/git/refs$", drop="after"))
    add(api, addition(1))
    hub.fail(Fault("PATCH", "/git/refs/", drop="after"))
    add(api, addition(2))
    hub.fail(Fault("POST", "/git/(blobs|trees|commits)$", drop="after", times=2))
    add(api, addition(3))
    assert lines(repo) == [1, 2, 3]
    assert len(repo.git.ancestors(repo.git.refs[REFERENCE])) == 3


def test_old_results_are_thinned_and_lines_stay(repo: Repository, api: Api) -> None:
    """The last 30 commits, then one a week; a run a day for 60 days."""
    for day in range(60):
        add(api, addition(day + 1, at=START + timedelta(days=day)))
    assert lines(repo) == list(range(1, 61))
    days = sorted(int(path.split("/")[1], 16) - 1 for path in records(repo))
    # The 30th newest is day 30, a Wednesday, so that the week's own is among the 30; then the Sundays before.
    assert days == [6, 13, 20, 27, *range(30, 60)]


def test_what_others_put_there_stays(repo: Repository, api: Api) -> None:
    git = repo.git
    git.refs[REFERENCE] = git.commit(
        {"history.jsonl": "no json\n", "README.md": "ours", f"records/{'e' * 40}/x.json.gz": "x"}
    )
    add(api, addition(1))
    assert git.read(NAME, "README.md") == b"ours"
    assert git.read(NAME, f"records/{'e' * 40}/x.json.gz") == b"x"
    content = git.read(NAME, "history.jsonl")
    assert content is not None
    assert content.startswith(b"no json\n{")


def test_a_branch_of_code_is_not_written_to(repo: Repository, api: Api) -> None:
    with pytest.raises(BranchError, match=r"the branch main has other files, and no history\.jsonl"):
        add_to_branch(api, "main", [addition(1)], pause=lambda _: None)


def test_a_rule_that_forbids_it_is_told_at_once(repo: Repository, api: Api, hub: FakeGitHub) -> None:
    repo.protected.add(REFERENCE)
    with pytest.raises(ApiError, match="Changes must be made through a pull request"):
        add(api, addition(1))
    assert sum(call.path.endswith("/git/refs") for call in hub.requests) == 1
    hub.add_token(TOKEN, Token(BOT, permissions={"contents": "read"}))
    with pytest.raises(ApiError, match="Resource not accessible by integration"):
        add(api, addition(1))


class Restless(dict[str, str]):
    """References of which one moves whenever somebody looks at it."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(repository.git.refs)
        self.git = repository.git

    def __getitem__(self, name: str) -> str:
        if name == REFERENCE:
            self[name] = self.git.commit({"other": str(len(self.git.commits))}, super().__getitem__(name))
        return super().__getitem__(name)


def test_a_branch_that_never_rests(repo: Repository, api: Api) -> None:
    add(api, addition(1))
    repo.git.refs = Restless(repo)
    waits: list[float] = []
    with pytest.raises(BranchError, match="moved 20 times while it was added to"):
        add_to_branch(api, NAME, [addition(2)], pause=waits.append)
    assert len(waits) == 20
    assert max(waits) <= 30
    assert lines(repo) == [1]


def test_results_of_many_years_are_not_kept_for_ever() -> None:
    times = {f"{week:040x}": START + timedelta(weeks=week) for week in range(200)}
    assert kept_commits(times) == {f"{week:040x}" for week in range(100, 200)}


@pytest.mark.parametrize(
    ("folder", "file", "readable"),
    [
        ("agents/billing", "agent.yaml", "agents-billing-agent.yaml-"),
        ("", "agent.yaml", "agent.yaml-"),
        (None, "agent.yaml", "agent.yaml-"),
        ("../..", "agent.yaml", "agent.yaml-"),
        ("ä ö/\n", "a.yaml", "a.yaml-"),
    ],
)
def test_names_of_suites_are_names_of_files(folder: str | None, file: str, readable: str) -> None:
    key = suite_key(folder, file)
    assert key.startswith(readable)
    assert key.isascii()
    assert "/" not in key
    assert len({suite_key(name, "agent.yaml") for name in ("a/b", "a-b", "a_b", "A/b")}) == 4
