"""Results to compare with from artifacts: whose are taken, and everything that an artifact must not do."""

from __future__ import annotations

import io
import json
import stat
import struct
import zipfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.github.bases.zip_files import MOST_PACKED, ZipError, results_files
from tests.commands.project import Project
from tests.github.baselines import OUTPUT, QUIET, Shop
from tests.github.fake import FakeGitHub, Fault
from tests.github.fake.actions import zipped
from tests.github.fake.permissions import Permissions
from tests.github.life import FILES, only_comment, suite
from tests.github.workflow import REPOSITORY, WRITES
from tests.reports.parsing import leaves, parses


@pytest.fixture
def shop(hub: FakeGitHub, project: Project) -> Shop:
    return Shop(hub, project, "artifact")


def test_a_pull_request_is_compared_with_the_run_of_its_merge_base(shop: Shop) -> None:
    shop.push()
    first = shop.main
    artifact = shop.upload()
    shop.merge("refund")
    shop.push(first)
    shop.upload()
    ended = shop.pull(shop.branch_off("refund", at=first))

    assert ended.code == 1
    assert (shop.base().commit, shop.base().wanted, shop.base().distance) == (first, first, 0)
    assert shop.base().notices == ()
    assert (shop.project.folder / OUTPUT / "base" / "results.json").read_bytes() == zipfile.ZipFile(
        io.BytesIO(artifact.archive)
    ).read("results.json")


def test_a_push_is_compared_with_the_run_before(shop: Shop) -> None:
    assert shop.push().code == 0
    assert "merge a workflow that evaluates pushes to main and uploads its results" in shop.missing()
    first = shop.main
    shop.upload()
    shop.merge()
    shop.push(first)
    assert (shop.base().commit, shop.base().distance) == (first, 0)


def test_the_nearest_commit_with_results_is_taken_and_its_distance_told(shop: Shop) -> None:
    shop.push()
    first = shop.main
    shop.upload()
    for _ in range(3):
        shop.merge()
    shop.pull(shop.branch_off())
    assert (shop.base().commit, shop.base().wanted, shop.base().distance) == (first, shop.main, 3)
    assert shop.base().notices == (
        f"the base is commit {first[:12]}, 3 commits before {shop.main[:12]}, which has no results",
    )


def test_the_newest_run_of_a_commit_is_taken(shop: Shop) -> None:
    shop.push()
    shop.upload()
    shop.branch_off("refund")
    shop.push()
    newer = shop.upload(event="schedule")
    shop.pull(shop.branch_off())
    assert (shop.project.folder / OUTPUT / "base" / "results.json").read_bytes() == zipfile.ZipFile(
        io.BytesIO(newer.archive)
    ).read("results.json")


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        ({"branch": "topic"}, "main has results of this suite for commit"),
        ({"head_repository_id": 4711}, "main can be used: 1 skipped, of a run of a fork;"),
        (
            {"event": "pull_request_target"},
            "of a run by `pull_request_target`, which anyone may start;",
        ),
        (
            {"event": "issue_comment"},
            "of a run by `issue_comment`, which anyone may start;",
        ),
        ({"event": "workflow_run"}, "of a run by `workflow_run`, which anyone may start;"),
        ({"status": "in_progress"}, "can be used: 1 skipped, of a run that has not ended;"),
    ],
    ids=str,
)
def test_runs_that_vouch_for_nothing(shop: Shop, run: dict[str, Any], reason: str) -> None:
    """A run of another branch, of a fork whose branch is called main, of anybody's comment, or one that goes on."""
    shop.push()
    shop.upload(**run)
    shop.pull(shop.branch_off())
    assert reason in shop.missing()
    assert not any("/zip" in call.path for call in shop.hub.requests)


def test_results_of_another_commit_are_refused(shop: Shop) -> None:
    shop.push()
    forged = shop.upload(shop.merge())
    shop.pull(shop.branch_off())
    assert f"artifact {forged.id} (holodeck-results) results.json: claims to be of commit" in shop.missing()
    assert "but belongs to" in shop.missing()


def test_what_cannot_be_used_is_passed_over_and_told(shop: Shop) -> None:
    shop.push()
    good = shop.upload()
    bad = shop.upload(files=b"no archive")
    shop.pull(shop.branch_off())
    assert shop.base().commit == good.run.head_sha
    assert shop.base().notices == (f"skipped: artifact {bad.id} (holodeck-results) is not a zip archive",)


def linked() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        link = zipfile.ZipInfo("results.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    return packed.getvalue()


def twice() -> bytes:
    return zipped({"results.jsoN": b"{}", "results.json": b"{}"}).replace(b"results.jsoN", b"results.json")


def with_size(directory: int) -> bytes:
    """An archive that claims a list of files of so many bytes."""
    content = bytearray(zipped({"results.json": b"{}"}))
    struct.pack_into("<L", content, len(content) - 10, directory)
    return bytes(content)


def large() -> bytes:
    """An archive whose real list of files is where only the form for large archives looks."""
    content = zipped({"results.json": b"{}"})
    return content[:-22] + b"PK\x06\x07" + bytes(16) + content[-22:]


def packed_with(method: int) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", method) as archive:
        archive.writestr("results.json", "{}")
    return packed.getvalue()


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "slip": (lambda: zipped({"../results.json": b"{}"}), "a file whose path leaves the archive"),
    "absolute": (lambda: zipped({"/results.json": b"{}"}), "a file whose path leaves the archive"),
    "drive": (lambda: zipped({"C:/results.json": b"{}"}), "a file whose path leaves the archive"),
    "backslash": (lambda: zipped({"a\\results.json": b"{}"}), "a file whose path leaves the archive"),
    "link": (linked, "has a link"),
    "twice": (twice, "has two files of the same name"),
    "bomb": (lambda: zipped({"results.json": bytes(50_000_000)}), "unpacks to more than 200 times its size"),
    "files": (lambda: zipped({f"{number}.txt": b"" for number in range(5001)}), "has more than 5,000 files"),
    "list": (lambda: with_size(1 << 31), "has a list of files of more than 4,194,304 bytes"),
    "large": (large, "is a zip64 archive"),
    "encrypted": (
        lambda: zipped({"results.json": b"{}"}).replace(b"PK\1\2\x14\3\x14\0\0", b"PK\1\2\x14\3\x14\0\1"),
        "encrypted",
    ),
    "packed": (lambda: packed_with(zipfile.ZIP_LZMA), "is compressed in an unsupported way"),
    "cut": (lambda: zipped({"results.json": b"{}" * 1000})[:60], "is not a zip archive"),
    "nothing": (lambda: b"", "is not a zip archive"),
    "text": (lambda: zipped({"results.json": b"hello"}), "results.json: not a results file"),
    "deep": (lambda: zipped({"results.json": b"[" * 100_000}), "results.json: not a results file"),
    "other": (lambda: zipped({"results.json": b'{"schema_version": 2, "suite": {}}'}), "not a results file"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_archives(shop: Shop, kind: str) -> None:
    made, reason = HOSTILE[kind]
    before = {path for path in shop.project.folder.parent.rglob("*") if path.name == "results.json"}
    shop.upload(files=made())
    shop.pull(shop.branch_off())
    assert reason in shop.missing(), shop.missing()
    after = {path for path in shop.project.folder.parent.rglob("*") if path.name == "results.json"}
    assert after - before == {shop.project.folder / OUTPUT / "results.json"}


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255), st.integers(0, 3)), min_size=1, max_size=5))
def test_damaged_archives_are_refused_or_the_same(changes: list[tuple[int, int, int]]) -> None:
    """Whatever bytes are changed, cut or put in, there is no other error and no other content."""
    content = b'{"a": 1}' * 20
    archive = bytearray(zipped({"results.json": content, "report.md": b"text"}))
    for place, value, kind in changes:
        at = place % len(archive)
        archive[at : at + (kind != 1)] = b"" if kind == 2 else bytes([value])
    with suppress(ZipError):
        assert {found for _, found in results_files(bytes(archive))} <= {content, b"text"}


def test_an_archive_that_is_not_what_was_uploaded(shop: Shop) -> None:
    shop.push()
    shop.upload()
    shop.hub.fail(
        Fault("GET", "^/storage/", status=200, body=zipped(shop.output(shop.project.folder / OUTPUT) | {"x": b""}))
    )
    shop.pull(shop.branch_off())
    assert "does not match the digest of its upload" in shop.missing()


def test_an_edited_record_is_refused(shop: Shop) -> None:
    shop.push()
    files = shop.output(shop.project.folder / OUTPUT)
    record = json.loads(files["results.json"])
    record["cases"][0]["trials"][0]["turns"][0]["response"] = "better"
    shop.upload(files={"results.json": json.dumps(record).encode()})
    shop.pull(shop.branch_off())
    assert "results.json: is incomplete" in shop.missing()


def test_expired_artifacts(shop: Shop) -> None:
    shop.push()
    artifact = shop.upload()
    artifact.expired = True
    shop.pull(shop.branch_off())
    assert f"artifact {artifact.id} (holodeck-results) has expired; evaluate that branch again" in shop.missing()


def test_an_artifact_that_expires_while_it_is_downloaded(shop: Shop) -> None:
    shop.push()
    shop.upload()
    shop.hub.fail(Fault("GET", "/zip$", status=410, body={"message": "Artifact has expired"}))
    shop.pull(shop.branch_off())
    assert "Artifact has expired" in shop.missing()
    # The one before it is asked for then.
    older = shop.main
    shop.merge()
    shop.upload()
    shop.hub.fail(Fault("GET", "/zip$", status=410, body={"message": "Artifact has expired"}))
    shop.pull(shop.branch_off())
    assert shop.base().commit == older


def test_the_permission_that_is_missing(shop: Shop) -> None:
    shop.pull(shop.branch_off(), permissions={"contents": "read"})
    assert "add actions: read to the permissions: of the job" in shop.missing()
    shop.pull(shop.branch_off(), permissions={"actions": "read"})
    assert "add contents: read to the permissions: of the job" in shop.missing()
    shop.pull(shop.branch_off(), inputs={"github-token": ""})
    assert "there is no token: leave the input github-token to its default" in shop.missing()


def test_trouble_of_github_is_no_base_and_no_traceback(shop: Shop) -> None:
    shop.push()
    shop.upload()
    for path in ("/compare/", "/commits$", "/artifacts$", "/actions/runs/", "/zip$", "^/storage/"):
        shop.hub.fail(Fault("GET", path, status=503, times=None))
        ended = shop.pull(shop.branch_off())
        assert (ended.code, ended.outputs["verdict"]) == (0, "passed")
        assert "503" in shop.missing()
        shop.hub.heal()


def test_a_matrix_has_an_artifact_for_each_suite(shop: Shop) -> None:
    """Names that begin with `holodeck-results-` are looked through; a source may also name one."""
    for agent in ("one", "two"):
        suite(Project(shop.project.folder / "agents" / agent), name=agent)
        shop.push(inputs={"suite": f"agents/{agent}/agent.yaml"})
        shop.upload(name=f"holodeck-results-{agent}")
    shop.push(inputs={"suite": "agents/one/agent.yaml"})
    head = shop.branch_off()
    for agent in ("one", "two"):
        shop.pull(head, inputs={"suite": f"agents/{agent}/agent.yaml"})
        assert shop.base().commit == shop.main
        shop.pull(
            head, inputs={"suite": f"agents/{agent}/agent.yaml", "baseline": f"artifact:holodeck-results-{agent}"}
        )
        assert shop.base().source == f"artifact:holodeck-results-{agent}"
    shop.pull(head, inputs={"suite": "agents/two/agent.yaml", "baseline": "artifact:holodeck-results-one"})
    assert "has results of this suite for commit" in shop.missing()


def test_several_suites_of_one_artifact(shop: Shop) -> None:
    """Each is compared with its own, and the archive is downloaded once."""
    suites = "agents/one/agent.yaml\nagents/two/agent.yaml"
    for agent in ("one", "two"):
        suite(Project(shop.project.folder / "agents" / agent), name=agent)
    shop.push(inputs={"suite": suites})
    shop.upload()
    before = len(shop.hub.requests)
    shop.pull(shop.branch_off(), inputs={"suite": suites})
    assert shop.base(f"{OUTPUT}/agents-one").commit == shop.base(f"{OUTPUT}/agents-two").commit == shop.main
    assert sum(call.path.endswith("/zip") for call in shop.hub.requests[before:]) == 1


def test_nothing_is_asked_without_a_baseline(shop: Shop) -> None:
    ended = shop.workflow.job("push", QUIET, checkout=shop.main)
    assert ended.code == 0
    assert shop.record().baseline is None
    assert shop.hub.requests == []


def test_what_an_archive_says_is_shown_as_text(shop: Shop) -> None:
    """Names of files in it come to stand in the comment, the summary and the log."""
    head = shop.branch_off()
    shop.repository.add_pull(7, head_sha=head, head_repository=REPOSITORY, branch="topic", files=FILES)
    name = "<img src=x>`@octo` [a](https://x.example) ::error::\n::error::/results.json"
    shop.upload(files={name: b"no record"})
    permissions: Permissions = {**WRITES, "actions": "read"}
    ended = shop.pull(head, inputs={"comment": "always"}, permissions=permissions)
    assert "not a results file" in shop.missing()
    body = only_comment(shop.repository)
    line = next(line for line in body.splitlines() if "not compared with a base" in line)
    # What could act is inside a code span, in which nothing is a link, a mention or an image.
    for text in ("<img", "@octo", "https://x.example"):
        assert [token.type for token in leaves(parses(line)[0]) if text in token.content] == ["inline", "code_inline"]
    assert [command.name for command in ended.meant if command.name in ("error", "warning")] == []


def test_a_push_without_the_permission_for_contents(shop: Shop) -> None:
    """The commit to compare with is told by the event, those before it only by GitHub."""
    shop.push(shop.main, permissions={"actions": "read"})
    assert "add contents: read to the permissions: of the job" in shop.missing()
    shop.push("9" * 40)
    assert "Not Found" in shop.missing()


def test_two_results_of_one_suite_are_none(shop: Shop) -> None:
    """Which of them the run meant cannot be told; those of an earlier run and of a base are not meant."""
    shop.push()
    content = (shop.project.folder / OUTPUT / "results.json").read_bytes()
    shop.upload(files={"a/results.json": content, "b/results.json": content})
    shop.pull(shop.branch_off())
    assert "has two results of this suite" in shop.missing()
    shop.upload(files={"results.json": content, "previous/results.json": content, "base/results.json": content})
    shop.pull(shop.branch_off())
    assert shop.base().commit == shop.main


def test_an_archive_that_is_too_large_is_not_downloaded(shop: Shop) -> None:
    shop.upload(files=bytes(MOST_PACKED + 1))
    shop.pull(shop.branch_off())
    assert "is larger than 67,108,864 bytes" in shop.missing()
    assert not any(call.path.endswith("/zip") for call in shop.hub.requests)


# -- whose results they are


def evaluates(shop: Shop, target: str, *wrong: str, **run: Any) -> bytes:
    """Let a workflow evaluate main through a target, and upload; return the record."""
    suite(shop.project, *wrong, target=target)
    path = run.get("path", ".github/workflows/evaluate.yml")
    shop.push(GITHUB_WORKFLOW_REF=f"octo/shop/{path}@refs/heads/main", GITHUB_JOB=run.pop("job", "evaluate"))
    shop.upload(**run)
    return (shop.project.folder / OUTPUT / "results.json").read_bytes()


def kept(shop: Shop) -> bytes:
    return (shop.project.folder / OUTPUT / "base" / "results.json").read_bytes()


OTHER = ".github/workflows/nightly.yml"


@pytest.mark.parametrize("other", [{"path": OTHER}, {"job": "strict"}, {}], ids=["workflow", "job", "same job"])
def test_another_target_does_not_take_the_place_of_the_base(shop: Shop, other: dict[str, Any]) -> None:
    """The results of a second workflow or job, with other answers, are newer than those of this one."""
    mine = evaluates(shop, "answers.jsonl")
    evaluates(shop, "others.jsonl", "refund", **other)
    suite(shop.project, "refund")
    ended = shop.pull(shop.branch_off("refund"))
    assert kept(shop) == mine
    assert ended.code == 1
    (notice,) = shop.base().notices
    assert notice.startswith("2 results of this suite were found; skipped: 1 of another ")


def test_results_of_this_workflow_are_preferred_for_the_same_target(shop: Shop) -> None:
    mine = evaluates(shop, "answers.jsonl")
    evaluates(shop, "answers.jsonl", "refund", path=OTHER)
    shop.pull(shop.branch_off())
    assert kept(shop) == mine


def test_results_of_another_target_are_used_where_there_are_no_others(shop: Shop) -> None:
    theirs = evaluates(shop, "others.jsonl", path=OTHER)
    shop.pull(shop.branch_off())
    assert kept(shop) == theirs
    assert shop.base().notices == (
        "the results of the base are those of another workflow and another target: no results of this target "
        "were found",
    )


def test_the_same_target_a_commit_before_is_preferred(shop: Shop) -> None:
    mine = evaluates(shop, "answers.jsonl")
    first = shop.main
    shop.merge()
    evaluates(shop, "others.jsonl", path=OTHER)
    suite(shop.project)
    shop.pull(shop.branch_off())
    assert kept(shop) == mine
    assert shop.base().notices[0] == (
        f"the base is commit {first[:12]}, 1 commit before {shop.main[:12]}, which has no such results"
    )


def test_parts_of_a_matrix_are_told_apart_by_their_comments(shop: Shop) -> None:
    found = {}
    for part in ("small", "large"):
        suite(shop.project, *(["refund"] if part == "large" else []))
        shop.push(inputs={"comment-id": part})
        shop.upload(name=f"holodeck-results-{part}")
        found[part] = (shop.project.folder / OUTPUT / "results.json").read_bytes()
    for part in ("small", "large"):
        shop.pull(shop.branch_off(), inputs={"comment-id": part})
        assert kept(shop) == found[part]


@pytest.mark.full
def test_runs_that_anybody_starts_do_not_hide_the_base(shop: Shop) -> None:
    shop.push()
    good = shop.upload()
    for _ in range(98):
        shop.upload(event="issue_comment")
    ended = shop.pull(shop.branch_off("refund"))
    assert ended.code == 1
    assert shop.base().commit == good.run.head_sha
    assert sum(call.path.endswith("/zip") for call in shop.hub.requests) == 1


@pytest.mark.full
def test_more_runs_than_are_asked_about_are_told(shop: Shop) -> None:
    """That there may be a base which was not looked at is told apart from that there is none."""
    shop.push()
    shop.upload()
    for _ in range(100):
        shop.upload(event="issue_comment")
    assert shop.pull(shop.branch_off()).code == 0
    assert "only the nearest 100 runs were looked at" in shop.missing()
    assert "add a workflow that evaluates" not in shop.missing()
