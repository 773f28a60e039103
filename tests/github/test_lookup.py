"""From an event to its pull requests, over HTTP, and what must hold before anything is evaluated or published."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import yaml
from msgspec.structs import replace

from holodeck_action.github.event import Destination, resolve_event
from holodeck_action.github.lookup import FoundPulls, check_evaluated, find_pulls
from holodeck_action.github.rest.api import Api, connect
from holodeck_action.github.rest.objects import ApiError, Pull
from tests.github import events
from tests.github.events import AFTER, BASE, HEAD, MERGE
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.fake.permissions import Permissions
from tests.github.judging import refusal

NEWER = "b" * 40
READING: Permissions = {"pull_requests": "read", "contents": "read"}


@dataclass(frozen=True)
class World:
    """A GitHub with octo/shop, and the calls to it."""

    hub: FakeGitHub
    repository: Repository
    api: Api

    def find(self, name: str, overrides: Mapping[str, Any] | None = None) -> FoundPulls:
        return find_pulls(destination(name, overrides), self.api)

    @property
    def calls(self) -> list[str]:
        return [f"{call.method} {call.path}" for call in self.hub.requests]


@pytest.fixture
def world(hub: FakeGitHub) -> Iterator[World]:
    hub.add_token("ghs_reads", Token(login="github-actions[bot]", permissions=READING))
    repository = hub.add_repository("octo/shop")
    with connect("ghs_reads", hub.url, "octo/shop", pause=lambda _: None) as api:
        yield World(hub, repository, api)


def destination(name: str, overrides: Mapping[str, Any] | None = None) -> Destination:
    return resolve_event(events.event_of(name), events.payload(name, overrides), events.variables(name))


def pull(number: int = 7, head_repository: str | None = "octo/shop", **more: Any) -> Pull:
    values = {"state": "open", "head_sha": HEAD, "base_repository": "octo/shop", "merge_sha": MERGE, **more}
    return Pull(number=number, head_repository=head_repository, **values)


@pytest.mark.parametrize(
    "name", [name for name in events.names() if events.event_of(name) in ("pull_request", "pull_request_target")]
)
def test_the_event_of_a_pull_request_tells_it_all(world: World, name: str) -> None:
    found = world.find(name)
    assert found.sha == HEAD
    assert [pull.number for pull in found.pulls] == [7]
    assert found.reason == ""
    assert world.calls == []


@pytest.mark.parametrize(
    ("name", "sha", "reason"),
    [
        ("schedule", BASE, "schedule belongs to no pull request"),
        ("release", AFTER, "release belongs to no pull request"),
        ("push.tag", AFTER, "refs/tags/v1.2.0 is a tag, which belongs to no pull request"),
        ("issue_comment.issue", BASE, "the comment is on issue #7, which is not a pull request"),
        (
            "merge_group",
            AFTER,
            "a merge queue checks its own commit, and the comment of the pull request stays as it is",
        ),
    ],
)
def test_where_there_is_none_nobody_is_asked(world: World, name: str, sha: str, reason: str) -> None:
    assert world.find(name) == FoundPulls(sha, (), reason)
    assert world.calls == []


@pytest.mark.parametrize("name", ["issue_comment", "workflow_dispatch.pull-request"])
def test_a_chosen_pull_request_tells_its_head(world: World, name: str) -> None:
    world.repository.add_pull(7, head_sha=BASE, head_repository="mallory/shop")
    world.repository.push(7, head_sha=HEAD, merge_sha=MERGE)
    assert world.find(name) == FoundPulls(HEAD, (pull(head_repository="mallory/shop"),), "")
    assert world.calls == ["GET /repos/octo/shop/pulls/7"]


def test_a_chosen_pull_request_that_is_none(world: World) -> None:
    with pytest.raises(ApiError) as raised:
        world.find("workflow_dispatch.pull-request")
    assert raised.value.kind == "not_found"


def test_a_push_is_for_all_open_pull_requests_at_its_commit(world: World) -> None:
    shop, fork = world.repository, world.hub.add_repository("mallory/shop")
    shop.add_pull(9, head_sha=HEAD, base="release", merge_sha=MERGE)
    shop.add_pull(7, head_sha=HEAD, merge_sha=MERGE)
    shop.add_pull(5, head_sha=HEAD, state="closed")
    shop.add_pull(6, head_sha=HEAD)
    shop.push(6, head_sha=NEWER)
    # From this repository into a fork: not ours to write to.
    fork.add_pull(8, head_sha=HEAD, head_repository="octo/shop")
    assert world.find("push") == FoundPulls(HEAD, (pull(7), pull(9)), "")
    assert world.calls == [f"GET /repos/octo/shop/commits/{HEAD}/pulls"]


def test_a_push_that_no_pull_request_is_at(world: World) -> None:
    none = FoundPulls(HEAD, (), "no open pull request has commit aaaaaaaaaaaa as its head")
    assert world.find("push.new-branch") == none
    world.repository.add_pull(7, head_sha=HEAD, state="closed")
    assert world.find("push") == none
    world.repository.add_pull(8, head_sha=HEAD)
    world.repository.push(8, head_sha=NEWER)
    assert world.find("push") == FoundPulls(
        HEAD, (), ("the pull request #8 has a newer head; the run of that head will report")
    )


def test_the_repositorys_name_is_compared_without_case(world: World) -> None:
    world.repository.add_pull(7, head_sha=HEAD, merge_sha=MERGE)
    elsewhere = replace(destination("push"), repository="Octo/SHOP")
    assert find_pulls(elsewhere, world.api).pulls == (pull(),)
    assert find_pulls(replace(elsewhere, repository=""), world.api).pulls == ()


def test_a_workflow_run_is_for_the_pull_request_that_is_listed(world: World) -> None:
    world.repository.add_pull(7, head_sha=HEAD, merge_sha=MERGE)
    assert world.find("workflow_run") == FoundPulls(HEAD, (pull(),), "")
    assert world.calls == ["GET /repos/octo/shop/pulls/7"]


def test_a_workflow_run_whose_pull_request_moved_on(world: World) -> None:
    world.repository.add_pull(7, head_sha=HEAD, head_repository="mallory/shop")
    world.repository.push(7, head_sha=NEWER)
    moved = FoundPulls(HEAD, (), "the pull request #7 has a newer head; the run of that head will report")
    for name in ("workflow_run", "workflow_run.fork", "workflow_run.deleted-fork"):
        assert world.find(name) == moved


def test_a_forks_workflow_run_is_found_by_its_branch(world: World) -> None:
    shop = world.repository
    shop.add_pull(6, head_sha=HEAD, head_repository="eve/shop")
    shop.add_pull(7, head_sha=HEAD, head_repository="mallory/shop", merge_sha=MERGE)
    shop.add_pull(8, head_sha=NEWER, head_repository="mallory/shop", base="release")
    assert world.find("workflow_run.fork") == FoundPulls(HEAD, (pull(head_repository="mallory/shop"),), "")
    assert world.calls == ["GET /repos/octo/shop/pulls"]
    assert world.hub.requests[0].query["head"] == "mallory:topic"


def test_a_branchs_name_cannot_change_the_question(world: World) -> None:
    world.repository.add_pull(7, head_sha=HEAD, head_repository="mallory/shop", branch="a&state=all#b c", state="open")
    found = world.find("workflow_run.fork", {"workflow_run.head_branch": "a&state=all#b c"})
    assert [pull.number for pull in found.pulls] == [7]
    assert world.hub.requests[0].query["head"] == "mallory:a&state=all#b c"
    assert world.hub.requests[0].query["state"] == "open"


def test_a_deleted_forks_workflow_run_is_found_by_its_commit(world: World) -> None:
    world.repository.add_pull(7, head_sha=HEAD, head_repository=None, merge_sha=MERGE)
    assert world.find("workflow_run.deleted-fork") == FoundPulls(HEAD, (pull(head_repository=None),), "")


@pytest.mark.parametrize("name", ["push", "workflow_run", "workflow_run.fork", "issue_comment"])
def test_a_failed_look_up_is_an_api_error(world: World, name: str) -> None:
    world.repository.add_pull(7, head_sha=HEAD)
    world.hub.fail(Fault(method="GET", path="/", status=403, body={"message": "Resource not accessible"}, times=None))
    with pytest.raises(ApiError) as raised:
        world.find(name)
    assert raised.value.kind == "denied"


@pytest.mark.parametrize("name", ["issue_comment", "workflow_dispatch.pull-request"])
def test_a_chosen_pull_request_of_a_fork_is_refused(name: str) -> None:
    chosen = destination(name)
    event = events.event_of(name)
    for head in ("mallory/shop", None):
        sentence = refusal(chosen, FoundPulls(HEAD, (pull(head_repository=head),), ""), allowed=False)
        assert sentence is not None
        assert sentence.startswith(f"{event} would give a fork's code the secrets")
        assert "docs/github.md#pull-requests-from-forks" in sentence
    assert refusal(chosen, FoundPulls(HEAD, (pull(),), ""), allowed=False) is None
    assert refusal(chosen, FoundPulls(HEAD, (pull(head_repository="mallory/shop"),), ""), allowed=True) is None


@pytest.mark.parametrize("found", [None, FoundPulls(None, (), "no repository"), FoundPulls(HEAD, (), "")])
def test_a_pull_request_that_may_be_a_forks_is_refused(found: FoundPulls | None) -> None:
    chosen = destination("issue_comment")
    assert refusal(chosen, found, allowed=False) == (
        "issue_comment can have the secrets and a token that can write, and the checkout is not known to be this "
        "repository's own: nothing shows it; so nothing was evaluated: check out a commit of this repository and "
        "change no file, or read docs/security.md and accept the risk with "
        "the option `--allow-unsafe-forks` (in a workflow step: a line of the input `args`)"
    )
    assert refusal(chosen, found, allowed=True) is None


@pytest.mark.parametrize("name", [name for name in events.names() if not destination(name).privileged])
def test_without_secrets_nothing_is_refused(name: str) -> None:
    for found in (None, FoundPulls(HEAD, (pull(head_repository=None),), "")):
        assert refusal(destination(name), found, allowed=False) is None


@pytest.mark.parametrize("name", ["workflow_run", "pull_request_target"])
def test_what_the_event_tells_needs_no_look_up(name: str) -> None:
    assert refusal(destination(f"{name}.fork"), None, allowed=False) is not None
    assert refusal(destination(f"{name}.fork"), None, allowed=True) is None


AT_HEAD = FoundPulls(HEAD, (pull(),), "")
ELSEWHERE = [name for name in events.names() if not destination(name).checks_out_head and "merged" not in name]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_run_of_the_default_branch_says_nothing_about_a_pull_request(name: str) -> None:
    about = destination(name)
    assert check_evaluated(about, AT_HEAD, HEAD) is None
    assert check_evaluated(about, AT_HEAD, MERGE) is None
    sentence = check_evaluated(about, AT_HEAD, BASE)
    assert sentence is not None
    assert sentence.startswith(
        "commit dddddddddddd was evaluated, but the pull request #7 is at commit aaaaaaaaaaaa, so nothing is published "
        "for it: give actions/checkout "
    )
    unknown = check_evaluated(about, AT_HEAD, None)
    assert unknown is not None
    assert unknown.startswith("the evaluated commit is unknown, but the pull request #7 is at commit aaaa")
    # Each YAML that it gives can be pasted as it is.
    given = [yaml.safe_load(code) for code in re.findall("`([^`]+)`", sentence)]
    assert given
    assert all(set(mapping) == {"ref"} and "${{ " in mapping["ref"] for mapping in given)


@pytest.mark.parametrize("name", sorted(set(events.names()) - set(ELSEWHERE) - {"pull_request.merged"}))
def test_what_is_checked_out_by_itself_is_taken(name: str) -> None:
    assert check_evaluated(destination(name), AT_HEAD, None) is None


def test_the_commit_counts_where_there_is_no_pull_request(world: World) -> None:
    about = destination("workflow_run.fork")
    found = find_pulls(about, world.api)
    assert found.pulls == ()
    assert check_evaluated(about, found, HEAD) is None
    sentence = check_evaluated(about, found, BASE)
    assert sentence is not None
    assert "the commit of the event is at commit aaaaaaaaaaaa" not in sentence
    assert "the event is about commit aaaaaaaaaaaa" in sentence


def test_without_a_known_commit_nothing_is_published() -> None:
    about = destination("issue_comment")
    assert check_evaluated(about, FoundPulls(None, (), "not found"), BASE) is not None
    assert check_evaluated(about, FoundPulls(None, (pull(merge_sha=None),), ""), None) is not None
    assert check_evaluated(about, FoundPulls(HEAD, (pull(merge_sha=None),), ""), None) is not None


def test_a_merged_pull_requests_run_is_that_of_its_merge(world: World) -> None:
    about = destination("pull_request.merged")
    found = find_pulls(about, world.api)
    assert check_evaluated(about, found, AFTER) is None
    assert check_evaluated(about, FoundPulls(HEAD, (), ""), AFTER) is None
    assert check_evaluated(about, found, HEAD) is None
    # The base branch has moved on.
    assert "ref: ${{ github.event.pull_request.head.sha }}" in str(check_evaluated(about, found, NEWER))


def test_a_stale_merge_commit_is_not_taken_for_the_pull_request() -> None:
    stale = {"pull_request.merge_commit_sha": "e" * 40}
    about = destination("pull_request_target", stale)
    assert about.pull is not None
    assert check_evaluated(about, FoundPulls(HEAD, (about.pull,), ""), "e" * 40) is not None
