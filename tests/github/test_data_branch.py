"""The branch of results: writers at once, what stays and what goes, and what GitHub or others put in the way."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.history.branch_history import BranchHistory
from holodeck_action.extensions.history.history_layout import commits_to_keep, suite_key
from holodeck_action.extensions.history.history_lines import dump_line
from holodeck_action.extensions.history.history_store import HistoryEntry, HistoryError
from holodeck_action.github.job import Job
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.steps import naming, places
from tests.github.workflow import BOT, REPOSITORY
from tests.record.lines import START, line

TOKEN = "ghs_writer"
NAME = "holodeck-data"
REFERENCE = f"refs/heads/{NAME}"
SUITE = "agents/billing/agent.yaml"


@pytest.fixture
def repo(hub: FakeGitHub) -> Repository:
    hub.add_token(TOKEN, Token(BOT, permissions={"contents": "write"}))
    repository = hub.add_repository(REPOSITORY)
    repository.git.refs["refs/heads/main"] = repository.git.commit({"agent.yaml": "0"})
    return repository


@pytest.fixture
def job(hub: FakeGitHub, repo: Repository) -> Iterator[Job]:
    with job_of(hub) as job:
        yield job


def job_of(hub: FakeGitHub, pause: Callable[[float], None] = lambda _: None) -> Job:
    environ = {"GITHUB_TOKEN": TOKEN, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY}
    return Job(environ, TOKEN, pause, lambda: START)


def entry(number: int, suite: str = SUITE, **changes: Any) -> HistoryEntry:
    """A run a day; the first one is a Thursday."""
    return HistoryEntry(line(number, suite=suite, **changes), f"results of {number}".encode())


def add(job: Job, *entries: HistoryEntry, name: str = NAME) -> None:
    BranchHistory(job, name, Path.cwd()).append(entries)


def lines(repo: Repository) -> list[int]:
    content = repo.git.read(NAME, "history.jsonl")
    assert content is not None
    return [int(json.loads(text)["record_digest"], 16) for text in content.splitlines()]


def records(repo: Repository) -> list[str]:
    commit = repo.git.commits[repo.git.refs[REFERENCE]]
    return [path for path, _ in repo.git.files(commit.tree) if path.startswith("records/")]


def test_the_first_run_makes_the_branch(repo: Repository, job: Job) -> None:
    add(job, entry(1))
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


def test_runs_add_to_it(repo: Repository, job: Job) -> None:
    add(job, entry(1))
    first = repo.git.refs[REFERENCE]
    add(job, entry(2), entry(2, "agent.yaml"))
    assert repo.git.commits[repo.git.refs[REFERENCE]].parents == (first,)
    assert lines(repo) == [1, 2, 2]
    assert len(records(repo)) == 3
    # A second run of the same commit replaces its results.
    add(job, entry(3, commit=f"{1:040x}"))
    assert lines(repo) == [1, 2, 2, 3]
    assert len(records(repo)) == 3
    # What it has is not added again.
    before = repo.git.refs[REFERENCE]
    add(job, entry(3, commit=f"{1:040x}"))
    assert repo.git.refs[REFERENCE] == before


@pytest.mark.full
@pytest.mark.races
def test_twenty_writers_lose_no_line(repo: Repository, hub: FakeGitHub) -> None:
    """They all begin at once, before there is a branch, and none waits before it tries again."""

    def write(number: int) -> None:
        with job_of(hub) as job:
            add(job, entry(number))

    with ThreadPoolExecutor(20) as threads:
        list(threads.map(write, range(1, 21)))
    assert sorted(lines(repo)) == list(range(1, 21))
    assert len(records(repo)) == 20
    assert len(repo.git.ancestors(repo.git.refs[REFERENCE])) == 20


def test_an_answer_that_is_lost_adds_no_line_twice(repo: Repository, job: Job, hub: FakeGitHub) -> None:
    hub.fail(Fault("POST", "/git/refs$", drop="after"))
    add(job, entry(1))
    hub.fail(Fault("PATCH", "/git/refs/", drop="after"))
    add(job, entry(2))
    hub.fail(Fault("POST", "/git/(blobs|trees|commits)$", drop="after", times=2))
    add(job, entry(3))
    assert lines(repo) == [1, 2, 3]
    assert len(repo.git.ancestors(repo.git.refs[REFERENCE])) == 3


FAULTS = [
    *(
        Fault("*", "", status=status, body={"message": "trouble"}, times=times)
        for status in (500, 403, 422)
        for times in (1, None)
    ),
    *(Fault("*", "", drop=drop) for drop in ("before", "after")),
    Fault("*", "", status=200, body="<html>a proxy</html>"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.status or fault.drop}-{fault.times}")
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_trouble_at_any_request_adds_once_or_says_why(
    repo: Repository, hub: FakeGitHub, fault: Fault, *, first: bool
) -> None:
    """Whatever happens at whichever request: the line is there once with its results, or an error names the branch."""
    with job_of(hub) as job:
        if not first:
            add(job, entry(1))
        before = dict(repo.git.refs)
        seen = len(hub.requests)
        add(job, entry(2))
        found = places(hub.requests[seen:], every=True)
        repo.git.refs = dict(before)
    assert len(found) >= 6
    for place in found:
        with naming(place), job_of(hub) as job:
            place.order(hub, fault)
            told = False
            try:
                add(job, entry(2))
            except HistoryError as error:
                told = f"the branch {NAME}: " in str(error)
            hub.heal()
            added = [number for number in (lines(repo) if REFERENCE in repo.git.refs else []) if number == 2]
            assert len(added) == 1 or (told and added == [])
            assert sum(f"{2:040x}" in path for path in (records(repo) if added else [])) == len(added)
            repo.git.refs = dict(before)


def test_old_results_are_thinned_and_lines_stay(repo: Repository, job: Job) -> None:
    """The last 30 commits, then one a week; a run a day for 60 days, of which this is the last."""
    git = repo.git
    earlier = [entry(day) for day in range(59)]
    files: dict[str, str | bytes | None] = {item.line.record_path: b"packed" for item in earlier}
    files["history.jsonl"] = b"".join(dump_line(item.line) for item in earlier)
    git.refs[REFERENCE] = git.commit(files)
    add(job, entry(59))
    assert lines(repo) == list(range(60))
    days = sorted(int(path.split("/")[1], 16) for path in records(repo))
    # The 30th newest is day 30, a Saturday, whose week has its own among the 30; then the Sundays before.
    assert days == [3, 10, 17, 24, *range(30, 60)]


def test_what_others_put_there_stays(repo: Repository, job: Job) -> None:
    git = repo.git
    files: dict[str, str | bytes | None] = {
        "history.jsonl": "no json\n",
        "README.md": "ours",
        f"records/{'e' * 40}/x.json.gz": "x",
    }
    git.refs[REFERENCE] = git.commit(files)
    add(job, entry(1))
    assert git.read(NAME, "README.md") == b"ours"
    assert git.read(NAME, f"records/{'e' * 40}/x.json.gz") == b"x"
    content = git.read(NAME, "history.jsonl")
    assert content is not None
    assert content.startswith(b"no json\n{")


def test_a_branch_of_code_is_not_written_to(repo: Repository, job: Job) -> None:
    with pytest.raises(HistoryError, match=r"the branch main: it has other files and no history\.jsonl"):
        add(job, entry(1), name="main")


def test_a_rule_that_forbids_it_is_told_at_once(repo: Repository, job: Job, hub: FakeGitHub) -> None:
    repo.protected.add(REFERENCE)
    with pytest.raises(HistoryError, match="Changes must be made through a pull request"):
        add(job, entry(1))
    assert sum(call.path.endswith("/git/refs") for call in hub.requests) == 1
    hub.add_token(TOKEN, Token(BOT, permissions={"contents": "read"}))
    with pytest.raises(HistoryError, match="add contents: write to the permissions: of the job"):
        add(job, entry(1))


class Restless(dict[str, str]):
    """References of which one moves whenever somebody looks at it."""

    def __init__(self, repository: Repository) -> None:
        super().__init__(repository.git.refs)
        self.git = repository.git

    def __getitem__(self, name: str) -> str:
        if name == REFERENCE:
            self[name] = self.git.commit({"other": str(len(self.git.commits))}, super().__getitem__(name))
        return super().__getitem__(name)


def test_a_branch_that_never_rests(repo: Repository, hub: FakeGitHub) -> None:
    waits: list[float] = []
    with job_of(hub, waits.append) as job:
        add(job, entry(1))
        repo.git.refs = Restless(repo)
        with pytest.raises(HistoryError, match="it changed 20 times while the run was being added"):
            add(job, entry(2))
    assert len(waits) == 20
    assert max(waits) <= 60
    assert lines(repo) == [1]


def test_results_of_many_years_are_not_kept_for_ever() -> None:
    times = {f"{week:040x}": START + timedelta(weeks=week) for week in range(200)}
    assert commits_to_keep(times) == {f"{week:040x}" for week in range(100, 200)}


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
