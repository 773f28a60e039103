"""Every event, as GitHub sends it, to what it is about."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from holodeck_action.github.event import (
    Destination,
    LookupByCommit,
    LookupByHead,
    LookupByNumber,
    NoLookup,
    is_fork,
    resolve_event,
)
from holodeck_action.github.rest.objects import Pull
from holodeck_action.github.rest.payload import PAYLOAD_LIMIT, EventError, read_event
from holodeck_action.workers.permission import SAFE_EVENTS, Origin, origin_of
from tests.github import events
from tests.github.events import AFTER, BASE, HEAD, MERGE
from tests.github.judging import refusal

PLAIN = Destination(
    event="",
    repository="octo/shop",
    sha=HEAD,
    lookup=LookupByNumber(7),
    comments=True,
    equivalent_commits=frozenset(),
    checks_out_head=True,
    read_only_reason="",
    fork=False,
    privileged=False,
)
"""What a destination is where nothing else is said; `event` and `why` are compared apart."""

OWN = Pull(7, "open", HEAD, "octo/shop", "octo/shop", None)
TESTED = frozenset({MERGE})
FORKED = replace(OWN, head_repository="mallory/shop")
ANOTHERS: dict[str, Any] = {"checks_out_head": False}
CHOSEN: dict[str, Any] = {**ANOTHERS, "sha": None}

TABLE: dict[str, dict[str, Any]] = {
    "pull_request": {"equivalent_commits": TESTED, "pull": replace(OWN, merge_sha=MERGE)},
    # What the payload calls its merge commit is that of the push before.
    "pull_request.synchronize": {"equivalent_commits": TESTED, "pull": replace(OWN, merge_sha=MERGE)},
    "pull_request.fork": {
        "equivalent_commits": TESTED,
        "pull": replace(FORKED, merge_sha=MERGE),
        "fork": True,
    },
    "pull_request.deleted-fork": {
        "equivalent_commits": TESTED,
        "pull": replace(OWN, head_repository=None, merge_sha=MERGE),
        "fork": True,
    },
    "pull_request.enterprise": {
        "equivalent_commits": TESTED,
        "pull": replace(FORKED, merge_sha=MERGE),
        "fork": True,
    },
    "pull_request.dependabot": {
        "equivalent_commits": TESTED,
        "pull": replace(OWN, merge_sha=MERGE),
    },
    "pull_request.closed": {
        "equivalent_commits": TESTED,
        "pull": replace(OWN, state="closed", merge_sha=MERGE),
    },
    "pull_request.merged": {
        "equivalent_commits": frozenset({AFTER}),
        "checks_out_head": False,
        "pull": replace(OWN, state="closed", merge_sha=AFTER),
    },
    "pull_request_review.fork": {
        "equivalent_commits": TESTED,
        "pull": replace(FORKED, merge_sha=MERGE),
    },
    "pull_request_target": {**ANOTHERS, "pull": OWN},
    "pull_request_target.fork": {**ANOTHERS, "pull": FORKED, "fork": True},
    "push": {"lookup": LookupByCommit(HEAD)},
    "push.new-branch": {"lookup": LookupByCommit(HEAD)},
    "push.tag": {"sha": AFTER, "lookup": NoLookup("refs/tags/v1.2.0 is a tag, which belongs to no pull request")},
    "push.deleted": {
        "sha": BASE,
        "lookup": NoLookup("the push deleted refs/heads/topic: it belongs to no pull request"),
    },
    "merge_group": {"sha": AFTER, "comments": False},
    "workflow_run": ANOTHERS,
    "workflow_run.fork": {**ANOTHERS, "lookup": LookupByHead("mallory", "topic", HEAD), "fork": True},
    "workflow_run.deleted-fork": {**ANOTHERS, "lookup": LookupByCommit(HEAD), "fork": True},
    "issue_comment": CHOSEN,
    "issue_comment.issue": {
        "sha": BASE,
        "lookup": NoLookup("the comment is on issue #7, which is not a pull request"),
    },
    "schedule": {"sha": BASE, "lookup": NoLookup("schedule belongs to no pull request")},
    "workflow_dispatch": {"sha": BASE, "lookup": NoLookup("workflow_dispatch was given no input `pr-number`")},
    "workflow_dispatch.pull-request": CHOSEN,
    "release": {"sha": AFTER, "lookup": NoLookup("release belongs to no pull request")},
    "repository_dispatch": {"sha": BASE, "lookup": NoLookup("repository_dispatch belongs to no pull request")},
}


def resolved(name: str, overrides: Mapping[str, Any] | None = None, **more: str) -> Destination:
    return resolve_event(events.event_of(name), events.payload(name, overrides), {**events.variables(name), **more})


def wrong(name: str, overrides: Mapping[str, Any], **more: str) -> str:
    with pytest.raises(EventError) as raised:
        resolved(name, overrides, **more)
    return str(raised.value)


def test_the_table_has_every_payload() -> None:
    assert sorted(TABLE) == events.names()


@pytest.mark.parametrize("name", sorted(TABLE))
def test_each_event_leads_to_its_destination(name: str) -> None:
    destination = resolved(name)
    event = events.event_of(name)
    of_event: dict[str, Any] = {"event": event, "read_only_reason": destination.read_only_reason}
    if event not in SAFE_EVENTS:
        of_event |= {"privileged": True, "fork": None}
    # GITHUB_REF of these is refs/pull/7/merge.
    has_branch = event != "pull_request" or name == "pull_request.merged"
    own = frozenset({events.variables(name)["GITHUB_SHA"]} if has_branch else ())
    assert destination == replace(PLAIN, own_commits=own, **{**of_event, **TABLE[name]})


@pytest.mark.parametrize("name", ["pull_request.fork", "pull_request.deleted-fork", "pull_request_review.fork"])
def test_a_fork_is_told_the_way_out(name: str) -> None:
    assert resolved(name).read_only_reason == (
        f"the token of a {events.event_of(name)} run for a fork is read-only: publish from a second workflow "
        "(docs/github.md#pull-requests-from-forks)"
    )


def test_dependabot_is_told_the_way_out_where_its_token_only_reads() -> None:
    why = resolved("pull_request.dependabot").read_only_reason
    assert why == (
        "the token of a pull_request run that Dependabot caused is read-only: publish from a second workflow, as for "
        "forks (docs/github.md#pull-requests-from-forks)"
    )
    assert "Dependabot" in resolved("push", GITHUB_ACTOR="dependabot[bot]").read_only_reason
    # Who pushed again or ran it again, is the actor or is not; only the actor counts.
    assert resolved("pull_request.dependabot", GITHUB_ACTOR="alice").read_only_reason == ""
    # Without the runner's variable, it is the sender.
    assert "Dependabot" in resolved("pull_request.dependabot", GITHUB_ACTOR="").read_only_reason
    for name in ("pull_request_target", "workflow_run", "merge_group", "schedule", "issue_comment"):
        assert resolved(name, GITHUB_ACTOR="dependabot[bot]").read_only_reason == ""


def test_the_merge_commit_of_another_pull_request_stands_for_none() -> None:
    destination = resolved("pull_request", GITHUB_REF="refs/pull/70/merge")
    assert destination.equivalent_commits == frozenset()
    assert destination.pull == OWN
    assert resolved("pull_request", GITHUB_SHA="").equivalent_commits == frozenset()
    assert resolved("pull_request", GITHUB_SHA=HEAD).equivalent_commits == frozenset()


def test_a_renamed_base_repository_has_no_fork_by_its_letters_case() -> None:
    assert resolved("pull_request", {"pull_request.head.repo.full_name": "Octo/Shop"}).fork is False
    assert resolved("workflow_run", {"workflow_run.head_repository.full_name": "Octo/Shop"}).fork is None
    assert is_fork(FORKED)
    assert not is_fork(OWN)


def test_the_repository_is_the_runners_or_the_payloads() -> None:
    assert resolved("schedule", GITHUB_REPOSITORY="octo/renamed").repository == "octo/renamed"
    assert resolved("schedule", GITHUB_REPOSITORY="").repository == "octo/shop"
    for name in ("octo/..", "octo/shop/pulls", "octo shop/x", "octo/shop\n", "/shop", "octo/" + "x" * 200, "octo/é"):
        assert resolved("schedule", {"repository.full_name": name}, GITHUB_REPOSITORY=name).repository == ""


def test_a_push_without_the_runners_commit() -> None:
    assert resolved("push", GITHUB_SHA="").sha == HEAD
    # `after` of an annotated tag is no commit.
    assert resolved("push.tag", GITHUB_SHA="").sha == AFTER
    assert resolved("push", {"head_commit": None}, GITHUB_SHA="no hash").lookup == LookupByCommit(HEAD)
    assert "after is not a commit's hash" in wrong("push", {"head_commit": None, "after": "0" * 40}, GITHUB_SHA="")
    assert resolved("push.deleted", GITHUB_SHA="0" * 40).sha is None
    assert resolved("push", GITHUB_SHA="1" * 64).sha == "1" * 64


@pytest.mark.parametrize(
    ("ref", "lookup"),
    [
        (f"refs/heads/gh-readonly-queue/release/1.x/pr-31-{BASE}", LookupByNumber(31)),
        (f"refs/heads/gh-readonly-queue/pr-1-{BASE}/pr-32-{BASE}", LookupByNumber(32)),
        (f"refs/heads/gh-readonly-queue/main/pr-0-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-{'9' * 40}-{BASE}", None),
        (f"refs/heads/gh-readonly-queue/main/pr-7-{BASE}/more", None),
        ("refs/heads/main", None),
        (None, None),
        (7, None),
    ],
)
def test_the_pull_request_of_a_merge_queue(ref: object, lookup: LookupByNumber | None) -> None:
    found = resolved("merge_group", {"merge_group.head_ref": ref}).lookup
    assert found == (lookup or NoLookup("the merge queue's branch names no pull request"))


BY_HEAD = LookupByHead("octo", "topic", HEAD)


def listed(**changes: Any) -> dict[str, Any]:
    entry = events.payload("workflow_run")["workflow_run"]["pull_requests"][0]
    return events.changed(entry, {name.replace("__", "."): value for name, value in changes.items()})


@pytest.mark.parametrize(
    ("entries", "lookup"),
    [
        ([listed()], LookupByNumber(7)),
        ([listed(), listed()], LookupByNumber(7)),
        ([listed(number=8), listed(base__repo__id=1)], LookupByNumber(8)),
        # A pull request of the fork's own repository, or one whose head has moved on.
        ([listed(base__repo__id=1)], BY_HEAD),
        ([listed(head__sha=AFTER)], BY_HEAD),
        # The same branch into two others: both are looked for.
        ([listed(), listed(number=8)], BY_HEAD),
        ([], BY_HEAD),
        (None, BY_HEAD),
        ([None, 7, {"number": 7}, listed(number="7"), listed(number=True), listed(number=10**30)], BY_HEAD),
    ],
)
def test_the_pull_request_of_a_workflow_run(entries: object, lookup: LookupByNumber | LookupByHead) -> None:
    assert resolved("workflow_run", {"workflow_run.pull_requests": entries}).lookup == lookup


def test_a_workflow_run_without_a_branch_is_found_by_its_commit() -> None:
    destination = resolved("workflow_run.fork", {"workflow_run.head_branch": None})
    assert destination.lookup == LookupByCommit(HEAD)


def test_a_branchs_name_is_any_that_git_takes() -> None:
    name = "fix/ü&a=b#?%2F 7"
    assert resolved("workflow_run.fork", {"workflow_run.head_branch": name}).lookup == LookupByHead(
        "mallory", name, HEAD
    )
    for branch in ("", "a\nb", "a\x00", "\ud800", "x" * 2000, 7):
        message = wrong("workflow_run.fork", {"workflow_run.head_branch": branch})
        assert "workflow_run.head_branch is not a branch's name" in message


@pytest.mark.parametrize(
    ("inputs", "number"),
    [
        ({"pr-number": "7"}, 7),
        ({"pr_number": " 12 "}, 12),
        ({"pr-number": 7}, 7),
        ({"pr-number": "7", "pr_number": "7"}, 7),
        ({"pr-number": "", "pr_number": "8"}, 8),
        ({"pr-number": "", "other": "8"}, None),
        ({"pr-number": None}, None),
        ({}, None),
        (None, None),
    ],
)
def test_the_pull_request_that_was_chosen(inputs: object, number: int | None) -> None:
    destination = resolved("workflow_dispatch", {"inputs": inputs})
    assert (destination.lookup == LookupByNumber(number)) if number else isinstance(destination.lookup, NoLookup)
    assert destination.privileged


@pytest.mark.parametrize(
    "value",
    [
        "seven",
        "0",
        "-1",
        "7.0",
        "1e3",
        "9" * 19,
        "9" * 5000,
        "٧",
        0,
        -7,
        7.5,
        True,
        [],
        {"a": 1},
        pytest.param(10**5000, id="huge"),
    ],
)
def test_a_chosen_number_that_is_none(value: object) -> None:
    assert wrong("workflow_dispatch", {"inputs": {"pr-number": value}}) == (
        "workflow_dispatch: the input `pr-number` is not the number of a pull request: give one such as `7`, or "
        "leave it empty if the run belongs to none"
    )


def test_two_chosen_numbers() -> None:
    assert "pr-number" in wrong("workflow_dispatch", {"inputs": {"pr-number": "7", "pr_number": "8"}})


@pytest.mark.parametrize(
    ("name", "path", "value", "found"),
    [
        ("pull_request", "pull_request.head.sha", None, "missing"),
        ("pull_request", "pull_request.head.sha", "a" * 39, "not a commit's hash"),
        ("pull_request", "pull_request.head.sha", "A" * 40, "not a commit's hash"),
        ("pull_request", "pull_request.head.sha", "0" * 40, "not a commit's hash"),
        ("pull_request", "pull_request.head.sha", 7, "not a commit's hash"),
        ("pull_request", "pull_request.number", "7", "not a number"),
        ("pull_request", "pull_request.number", True, "not a number"),
        ("pull_request", "pull_request.number", 10**40, "not a number"),
        ("pull_request", "pull_request.number", 0, "not a number"),
        ("pull_request", "pull_request.head.repo", "octo/shop", "not an object"),
        ("pull_request", "pull_request.head.repo.full_name", "octo/../x", "not a repository's owner/name"),
        ("pull_request_target", "pull_request.base.repo.full_name", None, "missing"),
        ("merge_group", "merge_group.head_sha", [], "not a commit's hash"),
        ("workflow_run", "workflow_run.head_sha", "main", "not a commit's hash"),
        ("workflow_run.fork", "workflow_run.head_repository.owner.login", "a:b", "not an account's name"),
        ("workflow_run", "repository.full_name", None, "missing"),
        ("issue_comment", "issue.number", None, "missing"),
        ("issue_comment", "issue.pull_request", True, "not an object"),
        ("workflow_dispatch", "inputs", [], "not an object"),
    ],
)
def test_an_unusable_payload_is_named(name: str, path: str, value: object, found: str) -> None:
    assert wrong(name, {path: value}) == (
        f"the payload of the event {events.event_of(name)}: {path} is {found}: leave GITHUB_EVENT_NAME and "
        "GITHUB_EVENT_PATH as GitHub's runner sets them"
    )


def test_outside_of_a_workflow_nothing_is_known() -> None:
    destination = resolve_event("", {}, {})
    assert destination == replace(
        PLAIN, repository="", sha=None, lookup=NoLookup("this is not a workflow run"), event=""
    )


def test_a_reusable_workflow_has_its_callers_event() -> None:
    inputs = {"inputs": {"pr-number": "9"}}
    assert resolve_event("pull_request", {**events.payload("pull_request"), **inputs}, {}).lookup == LookupByNumber(7)


JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.sampled_from([HEAD, 10**400, "7", "x" * 300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place in a document, from its top to its leaves."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [at, *(place for key, item in inner for place in places(item, (*at, key)))]


@given(data=st.data())
def test_a_mangled_payload_is_an_event_error_or_a_destination(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(events.names()))
    payload = events.payload(name)
    for _ in range(data.draw(st.integers(1, 3))):
        # Most of a payload is never read: every other time, one of the places that may be.
        known = [at for at in places(payload) if at]
        read = [at for at in known if len(at) <= 4 and not any(str(key) in ("user", "sender") for key in at)]
        *parents, last = data.draw(st.sampled_from(read if data.draw(st.booleans()) else known))
        holder: Any = payload
        for key in parents:
            holder = holder[key]
        if isinstance(holder, dict) and data.draw(st.booleans()):
            del holder[last]
        else:
            holder[last] = data.draw(JUNK)
    variables = {**events.variables(name), "GITHUB_SHA": data.draw(st.sampled_from(["", HEAD, "junk"]))}
    check_total(events.event_of(name), payload, variables)


@given(
    payload=st.dictionaries(st.text(), JUNK), name=st.sampled_from([*events.names(), "x\n::error::"]), text=st.text()
)
def test_any_payload_is_an_event_error_or_a_destination(payload: dict[str, Any], name: str, text: str) -> None:
    check_total(events.event_of(name), payload, {"GITHUB_SHA": text, "GITHUB_REPOSITORY": text, "GITHUB_REF": text})


def check_total(event: str, payload: Mapping[str, Any], variables: Mapping[str, str]) -> None:
    """Whatever is mangled, what comes out is well-formed, and is never less careful than the event demands."""
    try:
        destination = resolve_event(event, payload, variables)
    except EventError as error:
        sentence = str(error)
    else:
        check_careful(event, destination)
        sentence = destination.read_only_reason
    assert sentence.isprintable()


def check_careful(event: str, destination: Destination) -> None:
    assert destination.event == event
    for commit in (destination.sha, *destination.equivalent_commits):
        assert commit is None or (len(commit) in (40, 64) and set(commit) <= set("0123456789abcdef"))
    assert destination.repository == "" or destination.repository.count("/") == 1
    match destination.lookup:
        case LookupByNumber(number):
            assert 0 < number < 2**63
        case NoLookup(reason):
            assert reason
            assert reason.isprintable()
        case LookupByHead(owner, branch, sha):
            f"{owner}:{branch}".encode()
            assert sha == destination.sha
    if event in ("pull_request_target", "workflow_run"):
        assert destination.privileged
        assert not destination.checks_out_head
    assert not (
        destination.checks_out_head and destination.sha is None and not isinstance(destination.lookup, NoLookup)
    )


@pytest.mark.parametrize("name", ["pull_request_target.fork", "workflow_run.fork", "workflow_run.deleted-fork"])
def test_a_forks_code_beside_secrets_is_refused(name: str) -> None:
    destination = resolved(name)
    assert refusal(destination, None, allowed=False) == (
        f"{events.event_of(name)} would give a fork's code the secrets and a token that can write, so nothing was "
        "evaluated: evaluate on pull_request and publish in a second workflow "
        "(docs/github.md#pull-requests-from-forks), or read docs/security.md and accept the risk with "
        "the option `--allow-unsafe-forks` (in a workflow step: a line of the input `args`)"
    )
    assert refusal(destination, None, allowed=True) is None


@pytest.mark.parametrize(
    ("event", "payload"),
    [
        *(
            (event, None)
            for event in ("issue_comment", "pull_request_target", "status", "workflow_dispatch", "workflow_run")
        ),
        ("pull_request_target", {}),
        ("pull_request_target", {"pull_request": {"head": {"repo": {}}, "base": {"repo": {"full_name": "octo/shop"}}}}),
        ("pull_request_target", {"pull_request": {"head": {"repo": {"full_name": "octo/shop"}}, "base": None}}),
        ("workflow_run", {"repository": {"full_name": "octo/shop"}}),
        ("workflow_run", {"workflow_run": {"head_repository": {"full_name": "octo/shop"}}}),
        ("issue_comment", {}),
        ("issue_comment", {"issue": {"pull_request": "yes"}}),
        ("workflow_dispatch", {"inputs": [7]}),
        ("workflow_dispatch", {"inputs": {"pr_number": " "}}),
    ],
)
def test_an_event_that_does_not_say_whose_code_it_is_is_not_trusted(event: str, payload: dict[str, Any] | None) -> None:
    assert origin_of(event, payload) == Origin(event, privileged=True, fork=None)


def test_the_event_is_read_from_the_runners_file(tmp_path: Path) -> None:
    environ = events.event_environ("push", tmp_path, overrides={"ref": "refs/heads/ü"}, GITHUB_RUN_ATTEMPT="2")
    name, payload = read_event(environ)
    assert name == "push"
    assert payload == events.payload("push", {"ref": "refs/heads/ü"})
    assert environ["GITHUB_RUN_ATTEMPT"] == "2"


def test_without_an_events_name_there_is_no_event() -> None:
    assert read_event({}) == ("", {})
    assert read_event({"GITHUB_EVENT_NAME": " ", "GITHUB_EVENT_PATH": "/nowhere"}) == ("", {})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "GITHUB_EVENT_PATH holds no JSON: "),
        (b"{", "GITHUB_EVENT_PATH holds no JSON: "),
        (b'{"a": "\xff"}', "GITHUB_EVENT_PATH holds no JSON: "),
        (b'{"a":' * 100_000, "GITHUB_EVENT_PATH holds no JSON: "),
        (b'{"a": ' + b"9" * 10_000 + b"}", "GITHUB_EVENT_PATH holds no JSON: "),
        (b"[]", "GITHUB_EVENT_PATH holds no JSON object: "),
        (b"null", "GITHUB_EVENT_PATH holds no JSON object: "),
        (b"{}" + b" " * PAYLOAD_LIMIT, "GITHUB_EVENT_PATH has 26,214,402 bytes; at most 26,214,400 are read: "),
    ],
    ids=["empty", "cut", "no text", "deep", "huge number", "list", "null", "large"],
)
def test_a_file_that_is_no_payload(tmp_path: Path, content: bytes, sentence: str) -> None:
    file = tmp_path / "event.json"
    file.write_bytes(content)
    assert failing(GITHUB_EVENT_PATH=str(file)).startswith(sentence)


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "event.json")
    assert failing(GITHUB_EVENT_PATH=str(tmp_path / "event.json")).startswith("GITHUB_EVENT_PATH is not a regular file")


def test_a_file_that_cannot_be_read(tmp_path: Path) -> None:
    assert "is push, but GITHUB_EVENT_PATH is not set" in failing()
    assert "No such file" in failing(GITHUB_EVENT_PATH=str(tmp_path / "none"))
    assert "Is a directory" in failing(GITHUB_EVENT_PATH=str(tmp_path))
    assert "is not a path of a file" in failing(GITHUB_EVENT_PATH="a\x00b")


def failing(**environ: str) -> str:
    with pytest.raises(EventError) as raised:
        read_event({"GITHUB_EVENT_NAME": "push", **environ})
    assert str(raised.value).endswith("leave GITHUB_EVENT_NAME and GITHUB_EVENT_PATH as GitHub's runner sets them")
    return str(raised.value)


@pytest.mark.parametrize("name", events.names())
def test_the_payloads_are_of_one_repository(name: str) -> None:
    text = json.dumps(events.payload(name))
    assert "octo/shop" in text
    assert "Codertocat" not in text
