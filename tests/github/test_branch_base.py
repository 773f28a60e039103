"""Results to compare with from a branch: which are taken, and what a branch must not do."""

from __future__ import annotations

import gzip
from collections.abc import Callable

import pytest

from holodeck_action.extensions.history.history_layout import suite_key
from tests.commands.project import Project
from tests.github.baselines import OUTPUT, WRITER, Shop
from tests.github.fake import FakeGitHub, Fault
from tests.github.life import suite

DATA = "holodeck-data"
SUITE_KEY = suite_key("", "agent.yaml")


class Stored(Shop):
    """A shop whose branch of results is written by hand."""

    def results(self) -> bytes:
        """The results of a run of `main` as it is."""
        suite(self.project)
        self.push()
        return (self.project.folder / OUTPUT / "results.json").read_bytes()

    def store(self, commit: str, packed: bytes, key: str = SUITE_KEY) -> None:
        """Put a file where the results of a commit are."""
        parents = [self.git.refs[name] for name in (f"refs/heads/{DATA}",) if name in self.git.refs]
        files: dict[str, str | bytes | None] = {f"records/{commit}/{key}.json.gz": packed, "history.jsonl": "{}\n"}
        self.git.refs[f"refs/heads/{DATA}"] = self.git.commit(files, *parents)


@pytest.fixture
def shop(hub: FakeGitHub, project: Project) -> Stored:
    return Stored(hub, project, f"branch:{DATA}")


def test_the_nearest_results_are_taken(shop: Stored) -> None:
    content = shop.results()
    first = shop.main
    shop.store(first, gzip.compress(content))
    shop.store("e" * 40, gzip.compress(content))
    shop.merge()
    shop.pull(shop.branch_off())
    assert (shop.base().commit, shop.base().wanted, shop.base().distance) == (first, shop.main, 1)
    assert (shop.project.folder / OUTPUT / "base" / "results.json").read_bytes() == content
    assert shop.base().notices == (
        f"the base is commit {first[:12]}, 1 commit before {shop.main[:12]}, which has no results",
    )


def test_each_suite_has_its_own_results(shop: Stored) -> None:
    shop.store(shop.main, gzip.compress(shop.results()))
    suite(Project(shop.project.folder / "agents" / "two"), name="two")
    two = {"suite": "agents/two/agent.yaml"}
    shop.pull(shop.branch_off(), inputs=two)
    assert f"the branch {DATA} holds no results of this suite for commit" in shop.missing()
    shop.push(inputs=two)
    content = (shop.project.folder / OUTPUT / "results.json").read_bytes()
    shop.store(shop.main, gzip.compress(content), suite_key("agents/two", "agent.yaml"))
    shop.pull(shop.branch_off(), inputs=two)
    assert shop.base().commit == shop.main
    shop.pull(shop.branch_off())
    assert shop.base().commit == shop.main


def test_what_cannot_be_used_is_passed_over(shop: Stored) -> None:
    shop.store(shop.main, gzip.compress(shop.results()))
    first = shop.main
    shop.store(shop.merge(), b"no gzip")
    shop.pull(shop.branch_off())
    assert shop.base().commit == first
    assert f"skipped: records/{shop.main}/{SUITE_KEY}.json.gz: is damaged" in shop.base().notices[1]


HOSTILE: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "bomb": (lambda content: gzip.compress(bytes(300_000_000), 1), "unpacks to more than 268,435,456 bytes"),
    "cut": (lambda content: gzip.compress(content)[:100], "is damaged"),
    "text": (lambda content: gzip.compress(b"hello"), "not a results file"),
    "edited": (lambda content: gzip.compress(content.replace(b"30 days", b"31 days")), "is incomplete"),
}


@pytest.mark.full
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_records(shop: Stored, kind: str) -> None:
    made, reason = HOSTILE[kind]
    shop.store(shop.main, made(shop.results()))
    shop.pull(shop.branch_off())
    assert f"no results on the branch {DATA} can be used" in shop.missing()
    assert reason in shop.missing()


def test_results_of_another_commit_are_refused(shop: Stored) -> None:
    content = shop.results()
    shop.store(shop.merge(), gzip.compress(content))
    shop.pull(shop.branch_off())
    assert "claims to be of commit" in shop.missing()


def test_results_under_the_name_of_another_suite_are_none(shop: Stored) -> None:
    content = shop.results()
    shop.store(shop.main, gzip.compress(content), suite_key("agents/two", "agent.yaml"))
    suite(Project(shop.project.folder / "agents" / "two"), name="two")
    shop.pull(shop.branch_off(), inputs={"suite": "agents/two/agent.yaml"})
    assert "holds no results of this suite" in shop.missing()


def test_no_branch_and_no_permission(shop: Stored) -> None:
    shop.pull(shop.branch_off())
    assert f"there is no branch {DATA} yet" in shop.missing()
    shop.store(shop.main, gzip.compress(shop.results()))
    shop.hub.fail(
        Fault("GET", "/git/ref/", status=403, body={"message": "Resource not accessible by integration"}, times=None)
    )
    shop.pull(shop.branch_off())
    assert "add contents: read to the permissions: of the job" in shop.missing()


def test_trouble_of_github_is_no_base(shop: Stored) -> None:
    shop.store(shop.main, gzip.compress(shop.results()))
    for path in ("/git/ref/", "/git/commits/", "/git/trees/", "/git/blobs/"):
        shop.hub.fail(Fault("GET", path, status=502, times=None))
        ended = shop.pull(shop.branch_off())
        assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
        assert "502" in shop.missing()
        shop.hub.heal()


@pytest.mark.parametrize("other", ["workflow", "job", "target"])
def test_results_of_several_jobs_stand_side_by_side(shop: Stored, other: str) -> None:
    """Each is compared with its own, whoever was last."""
    kept = {}
    ours = {"GITHUB_JOB": "evaluate"}
    theirs = {
        "workflow": {"GITHUB_WORKFLOW_REF": "octo/shop/.github/workflows/nightly.yml@refs/heads/main"},
        "job": {"GITHUB_JOB": "strict"},
        "target": ours,
    }[other]
    jobs = (("ours.jsonl", ours), ("theirs.jsonl" if other == "target" else "ours.jsonl", theirs))
    for number, (target, job) in enumerate(jobs):
        suite(shop.project, *(["refund"] if number else []), target=target)
        shop.push(permissions=WRITER, **job)
        kept[number] = (shop.project.folder / OUTPUT / "results.json").read_bytes()
    for number, (target, job) in enumerate(jobs):
        head = shop.branch_off()
        suite(shop.project, target=target)
        shop.pull(head, **job)
        assert (shop.project.folder / OUTPUT / "base" / "results.json").read_bytes() == kept[number]
        assert shop.base().notices == ()


def test_results_of_another_target_on_a_branch_are_told(shop: Stored) -> None:
    suite(shop.project, target="theirs.jsonl")
    shop.push(permissions=WRITER)
    suite(shop.project)
    shop.pull(shop.branch_off())
    assert shop.base().notices == (
        "the results of the base are those of another target: no results of this target were found",
    )
