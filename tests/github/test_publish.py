"""Finished runs published: from a laptop, from the second stage, and what no artifact can do there."""

from __future__ import annotations

import io
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holodeck_action.action import main
from holodeck_action.commands import publish as publication
from holodeck_action.decide.decision import decide
from holodeck_action.extensions.history.history_lines import MetricPoint, dump_line
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import read_record
from tests.action.runner import read_pairs
from tests.action.step import Ended, action
from tests.commands.project import Finished, Project
from tests.github.events import BASE, HEAD, event_environ
from tests.github.fake import FakeGitHub, Fault, Repository, Token
from tests.github.life import FILES, latest_check, ours, suite
from tests.github.workflow import REPOSITORY, WRITES, Workflow
from tests.record.lines import line, point
from tests.record.records import resealed

CLASSIC = "ghp_0123456789abcdefABCDEF0123456789abcd"
FINE = "github_pat_0123456789abcdefABCDEF"
SECRET = "topsecret-of-the-default-branch"
KINDS = {CLASSIC: "classic", FINE: "fine-grained"}
STEP = {"comment": "always", "fail-on": "violation"}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A run with a failing case in `out`, and a passing one in `good`; nothing else."""
    project = Project(tmp_path_factory.mktemp("finished"))
    project.write(".git/HEAD", f"{HEAD}\n")
    for folder, wrong in (("out", ("refund",)), ("good", ())):
        suite(project, *wrong)
        project.run("run", "-o", folder)
    return project


@pytest.fixture
def repository(hub: FakeGitHub) -> Repository:
    """octo/shop with pull request 7 and two persons who have tokens."""
    made = hub.add_repository(REPOSITORY)
    made.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", files=FILES)
    hub.add_token(CLASSIC, Token("alice", "classic", {"pull_requests": "write", "checks": "write", "issues": "write"}))
    hub.add_token(FINE, Token("bob", "fine-grained", {"pull_requests": "write"}))
    return made


Publish = Callable[..., Finished]


@pytest.fixture
def publish(hub: FakeGitHub, repository: Repository, finished: Project) -> Publish:
    """`holodeck-action publish` on a laptop; what it prints never holds its token."""

    def run(results: str, *flags: str, token: str = CLASSIC, **environ: str) -> Finished:
        where = () if "--repository" in flags else ("--repository", REPOSITORY)
        ended = finished.run("publish", results, *where, *flags, GITHUB_TOKEN=token, GITHUB_API_URL=hub.url, **environ)
        assert not token or token not in ended.stdout + ended.stderr
        return ended

    return run


def _of(repository: Repository, login: str, number: int = 7) -> list[dict[str, Any]]:
    return [comment for comment in repository.comments(number) if comment["user"]["login"] == login]


# From a laptop.


@pytest.mark.proves("publish: --pull-request --comment-id")
@pytest.mark.parametrize(("token", "login"), [(CLASSIC, "alice"), (FINE, "bob")])
def test_a_person_publishes_a_comment_and_updates_it(
    publish: Publish, repository: Repository, token: str, login: str
) -> None:
    first = publish("out", "--pull-request", "7", token=token)

    assert (first.code, first.stderr) == (1, "")
    assert first.stdout.startswith("FAILED: shop · ")
    (comment,) = _of(repository, login)
    assert f"comment: created: {comment['html_url']}" in first.stdout
    assert "check skipped: a check run can only be written by the job's own token" in first.stdout
    assert repository.check_runs(HEAD) == []

    second = publish("good", "--pull-request", "7", "--comment-id", "one", token=token)
    assert second.code == 0
    assert len(_of(repository, login)) == 2

    third = publish("out", "--pull-request", "7", "--comment-id", "one", token=token)
    assert third.code == 1
    old, new = _of(repository, login)
    assert (old["id"], "1 newly" in new["body"] or "❌" in new["body"]) == (comment["id"], True)
    assert f"comment: updated: {new['html_url']}" in third.stdout


@pytest.mark.proves("publish: RESULTS")
def test_a_results_file_is_published_as_its_folder_is(publish: Publish, repository: Repository) -> None:
    publish("out", "--pull-request", "7", "--comment-id", "a")
    publish("out/results.json", "--pull-request", "7", "--comment-id", "b")
    one, two = (comment["body"].split("\n", 2)[2] for comment in _of(repository, "alice"))
    assert one == two.replace("**b · ", "**a · ") != two


@pytest.mark.proves("publish: --sha")
def test_sha_finds_every_pull_request_with_this_head(publish: Publish, repository: Repository) -> None:
    repository.add_pull(8, head_sha=HEAD, head_repository=REPOSITORY, branch="topic")
    repository.add_pull(9, head_sha=BASE, head_repository=REPOSITORY, branch="other")
    ended = publish("out", "--sha", HEAD)

    assert ended.code == 1
    assert [len(_of(repository, "alice", number)) for number in (7, 8, 9)] == [1, 1, 0]
    assert ended.stdout.count("comment: created: ") == 2


def test_a_commit_that_is_no_head_is_published_nowhere(publish: Publish, repository: Repository) -> None:
    ended = publish("out", "--sha", "b" * 40)
    assert (ended.code, "no open pull request has commit" in ended.stdout) == (1, True)
    ended = publish("out", "--sha", "b" * 40, "--pull-request", "7")
    assert (ended.code, "has a newer head" in ended.stdout) == (1, True)
    assert repository.comments(7) == []


@pytest.mark.proves("publish: --repository")
def test_repository_is_that_of_the_workflow_without_a_flag(
    hub: FakeGitHub, repository: Repository, finished: Project
) -> None:
    environ = {"GITHUB_TOKEN": CLASSIC, "GITHUB_API_URL": hub.url, "GITHUB_REPOSITORY": REPOSITORY}
    assert finished.run("publish", "out", "--pull-request", "7", **environ).code == 1
    assert len(_of(repository, "alice")) == 1


@pytest.mark.proves("publish: --require-publish --fail-on")
@pytest.mark.parametrize(
    ("results", "flags", "code"),
    [
        ("out", (), 1),
        ("out", ("--fail-on", "never"), 0),
        ("good", ("--fail-on", "never"), 0),
        ("good", ("--require-publish",), 5),
        ("good", ("--require-publish", "--no-check"), 0),
        ("out", ("--require-publish",), 1),
    ],
)
def test_the_exit_code_is_the_verdicts(publish: Publish, results: str, flags: tuple[str, ...], code: int) -> None:
    assert publish(results, "--pull-request", "7", *flags).code == code


@pytest.mark.proves("publish: --comment")
@pytest.mark.parametrize(("results", "written"), [("good", 0), ("out", 1)])
def test_comment_says_when_it_is_written(publish: Publish, repository: Repository, results: str, written: int) -> None:
    publish(results, "--pull-request", "7", "--comment", "failures")
    publish(results, "--pull-request", "7", "--comment", "off")
    assert len(_of(repository, "alice")) == written


@pytest.mark.proves("publish: --review")
def test_review_stands_on_changed_lines(publish: Publish, repository: Repository, finished: Project) -> None:
    lines = (finished.folder / "agent.yaml").read_text(encoding="utf-8").count("\n") + 1
    added = "".join(f"\n+line {number}" for number in range(lines))
    repository.push(
        7,
        head_sha=HEAD,
        files=[{"filename": "agent.yaml", "status": "added", "patch": f"@@ -0,0 +1,{lines} @@{added}"}],
    )
    publish("out", "--pull-request", "7", "--comment", "off")
    assert repository.reviews(7) == []
    publish("out", "--pull-request", "7", "--comment", "off", "--review", "failures")
    assert len(repository.reviews(7)) == 1
    assert [comment["path"] for comment in repository.review_comments(7)] == ["agent.yaml"]


@pytest.mark.proves("publish: --check --check-name --check-fail-on")
@pytest.mark.parametrize(
    ("flags", "name", "conclusion"),
    [
        ((), "holodeck-action: out", "failure"),
        (("--check-name", "Shop"), "Shop", "failure"),
        (("--check-name", "Shop", "--check-fail-on", "never"), "Shop", "neutral"),
        (("--no-check",), None, None),
    ],
)
def test_a_check_run_of_an_app(
    hub: FakeGitHub, publish: Publish, repository: Repository, flags: tuple[str, ...], name: str, conclusion: str
) -> None:
    hub.add_token("ghs_app", Token("shop[bot]", "installation", WRITES))
    publish("out", "--sha", HEAD, *flags, token="ghs_app")
    found = [(run["name"], run["conclusion"]) for run in repository.check_runs(HEAD)]
    assert found == ([(name, conclusion)] if name else [])


@pytest.mark.proves("publish: --template")
def test_template_makes_the_comment(publish: Publish, repository: Repository, finished: Project) -> None:
    finished.write("mine.md", "All of {{ 1 + 1 }} cases.\n")
    publish("out", "--pull-request", "7", "--template", "mine.md")
    assert _of(repository, "alice")[0]["body"].rstrip().endswith("All of 2 cases.")
    ended = publish("out", "--pull-request", "7", "--template", "missing.md")
    assert ended.code == 2


@pytest.mark.parametrize("token", ["", "ghp_revoked0123456789"])
def test_a_token_that_is_missing_or_not_valid(publish: Publish, repository: Repository, token: str) -> None:
    ended = publish("good", "--pull-request", "7", token=token)
    assert (ended.code, repository.comments(7)) == (0, [])
    said = "give `github-token` a token that is valid" if token else "there is no token"
    assert said in ended.stdout
    assert publish("good", "--pull-request", "7", "--require-publish", token=token).code == 5


@pytest.mark.parametrize(
    ("results", "flags", "said"),
    [
        ("out", ("--sha", "abc"), "--sha 'abc' is not a full commit hash; give all 40 characters"),
        ("out", ("--sha", "z" * 40), "is not a full commit hash"),
        ("out", ("--pull-request", "0"), "'--pull-request'"),
        ("out", ("--pull-request", "seven"), "'--pull-request'"),
        ("out", ("--pull-request", "7", "--repository", "shop"), "give --repository as OWNER/NAME"),
        ("out", ("--pull-request", "7", "--repository", "../../user"), "give --repository as OWNER/NAME"),
        ("out", (), "--repository requires --pull-request or --sha"),
        ("out", ("--pull-request", "7", "--comment", "sometimes"), "'--comment'"),
        ("nowhere", ("--pull-request", "7"), "nowhere: there is no such file or folder"),
        ("a" * 5000, ("--pull-request", "7"), "there is no such file or folder"),
        ("out/report.md", ("--pull-request", "7"), "not a results file"),
        ("out/verdict.json", ("--pull-request", "7"), "not a results file"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(
    hub: FakeGitHub, publish: Publish, results: str, flags: tuple[str, ...], said: str
) -> None:
    ended = publish(results, *flags)
    assert (ended.code, ended.stdout) == (2, "")
    errors = [line for line in ended.stderr.splitlines() if line.lower().startswith("error: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert hub.requests == []


def test_outside_of_a_workflow_somebody_has_to_say_where(finished: Project) -> None:
    ended = finished.run("publish", "out", GITHUB_TOKEN=CLASSIC)
    assert (ended.code, ended.stderr) == (2, "error: publish: outside of a workflow, give --pull-request or --sha\n")


def test_a_failing_github_does_not_hide_the_verdict(hub: FakeGitHub, publish: Publish, repository: Repository) -> None:
    hub.fail(Fault(method="POST", path=r"/issues/7/comments", status=422, body={"message": "no"}, times=None))
    ended = publish("out", "--pull-request", "7")
    assert (ended.code, repository.comments(7)) == (1, [])
    assert "FAILED: shop · " in ended.stdout
    assert "comment failed: " in ended.stdout


# The second stage.


class Stage:
    """Stage two of octo/shop: a checkout of the default branch, and an artifact that anybody may have written."""

    def __init__(self, hub: FakeGitHub, repository: Repository, folder: Path) -> None:
        self.repository = repository
        self.base = Project(folder / "base")
        self.base.write("README.md", "The default branch.\n")
        self.workflow = Workflow(hub, self.base)

    def bring(self, name: str, content: str | bytes) -> Path:
        """Put a file into the artifact."""
        return self.base.write(f"artifact/{name}", content)

    def run(
        self,
        inputs: Mapping[str, str] | None = None,
        event: str = "workflow_run.fork",
        payload: Mapping[str, Any] | None = None,
    ) -> Ended:
        given = {"publish": "artifact", "comment-id": "one", **(inputs or {})}
        return self.workflow.job(event, given, payload=payload, checkout=BASE, SHOP_API_KEY=SECRET)

    def refused(self, said: str) -> None:
        """The step ends with exit code 2, says so where it should, and shows nothing it must not."""
        ended = self.run()
        assert (ended.code, ended.outputs["verdict"]) == (2, "invalid"), ended.text
        (error,) = [command for command in ended.meant if command.name == "error"]
        assert said in error.data
        bodies = [comment["body"] for comment in ours(self.repository)]
        assert len(bodies) == 1
        assert "✅" not in bodies[0]
        assert latest_check(self.repository, HEAD, "holodeck-action: artifact")["conclusion"] == "failure"
        shown = "".join([*bodies, ended.text, ended.summary, error.data])
        assert "root:" not in shown
        assert SECRET not in shown
        assert "has a defect" not in shown
        assert len(shown) < 200_000


@pytest.fixture
def stage(hub: FakeGitHub, repository: Repository, tmp_path: Path) -> Stage:
    """The second stage with an empty artifact, for pull request 7 of a fork."""
    repository.close(7)
    made = hub.add_repository(REPOSITORY)
    made.add_pull(7, head_sha=HEAD, head_repository="mallory/shop", branch="topic", files=FILES)
    return Stage(hub, made, tmp_path)


def _record(finished: Project, folder: str = "out") -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((finished.folder / folder / "results.json").read_bytes())
    return loaded


def test_the_pull_request_of_the_event_is_written_to(stage: Stage, finished: Project) -> None:
    stage.repository.add_pull(8, head_sha=BASE, head_repository="mallory/shop", branch="other")
    record = _record(finished)
    record["provenance"]["commit"] = BASE
    record["notices"] = ["#8", "/pull/8"]
    stage.bring("results.json", resealed(record))
    ended = stage.run()

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert len(ours(stage.repository)) == 1
    assert ours(stage.repository, 8) == []
    assert stage.repository.check_runs(BASE) == []
    assert ended.outputs["results-path"] == "artifact/results.json"


def test_publishing_works_on_a_pull_request_of_the_repository_itself(
    hub: FakeGitHub, repository: Repository, tmp_path: Path, finished: Project
) -> None:
    stage = Stage(hub, repository, tmp_path)
    stage.bring("results.json", resealed(_record(finished)))
    ended = stage.run(event="pull_request")
    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    assert ended.outputs["comment-url"] == ours(repository)[0]["html_url"]
    assert latest_check(repository, HEAD, "holodeck-action: artifact")["conclusion"] == "failure"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("suite", "other.yaml"),
        ("target", "command:cat"),
        ("output-dir", "elsewhere"),
        ("repeat", "3"),
        ("min-pass-rate", "0.1"),
        ("resume", "true"),
        ("allow-unsafe-forks", "true"),
        ("env-file", ".env"),
    ],
)
def test_an_input_that_only_a_run_has_a_use_for_is_refused(
    stage: Stage, finished: Project, name: str, value: str
) -> None:
    stage.bring("results.json", resealed(_record(finished, "good")))
    ended = stage.run({name: value})
    assert ended.code == 2
    kind = "input " if name in action()["inputs"] else "args: --"
    assert f"{kind}{name}: cannot be combined with publish" in ended.text
    assert stage.repository.comments(7) == []


# The artifact.


def _linked_file(stage: Stage, target: str) -> None:
    stage.bring("other", "")
    (stage.base.folder / "artifact" / "results.json").symlink_to(target)


@pytest.mark.parametrize("target", ["/etc/passwd", "/proc/self/environ", "../README.md", "/dev/zero"])
def test_a_link_in_place_of_the_results_is_not_followed(stage: Stage, target: str) -> None:
    _linked_file(stage, target)
    stage.refused("results.json is not a regular file")


def test_a_link_in_place_of_the_artifact_is_not_followed(stage: Stage, finished: Project) -> None:
    (stage.base.folder / "artifact").symlink_to(finished.folder / "good")
    stage.refused("is a symbolic link or is inside one")


def test_a_link_on_the_way_to_a_named_file_is_not_followed(stage: Stage, finished: Project) -> None:
    stage.bring("other", "")
    (stage.base.folder / "artifact" / "deep").symlink_to(finished.folder / "good")
    ended = stage.run({"publish": "artifact/deep/results.json"})
    assert (ended.code, "is a symbolic link or is inside one" in ended.text) == (2, True)


def test_a_link_to_a_folder_of_the_artifact_is_not_followed(stage: Stage, finished: Project) -> None:
    stage.bring("other", "")
    (stage.base.folder / "artifact" / "deep").symlink_to(finished.folder / "good")
    stage.refused("holds no results.json")


def test_a_pipe_is_not_read(stage: Stage) -> None:
    stage.bring("other", "")
    os.mkfifo(stage.base.folder / "artifact" / "results.json")
    stage.refused("results.json is not a regular file")


@pytest.mark.parametrize("kind", ["a run", "a link", "a pipe", "nonsense", "far too much"])
def test_earlier_runs_in_an_artifact_are_shown_or_passed_over(
    stage: Stage, finished: Project, tmp_path: Path, kind: str
) -> None:
    stage.bring("results.json", resealed(_record(finished)))
    file = stage.base.folder / "artifact" / "earlier-runs.jsonl"
    runs = dump_line(line(0, metrics={"@octocat\n::error::x": MetricPoint(point(0.5))}))
    match kind:
        case "a run":
            file.write_bytes(runs + b"nonsense\n")
        case "a link":
            (tmp_path / "elsewhere").write_bytes(runs)
            file.symlink_to(tmp_path / "elsewhere")
        case "a pipe":
            os.mkfifo(file)
        case "nonsense":
            file.write_bytes(b"\xff[[[")
        case "far too much":
            file.write_bytes(runs * 20_000)
    assert stage.run(event="pull_request").code == 1
    [comment] = ours(stage.repository)
    assert ("last 2 runs: pass rate `█▁`" in comment["body"]) == (kind == "a run")


def test_a_device_is_not_read(stage: Stage) -> None:
    ended = stage.run({"publish": "/dev/zero"})
    assert (ended.code, "is not a regular file" in ended.text) == (2, True)


def test_too_many_results(stage: Stage) -> None:
    for number in range(publication.MOST_FILES + 1):
        stage.bring(f"{number}/results.json", "{}")
    stage.refused("101 results files are too many; one step takes at most 100")


def test_too_many_files(stage: Stage) -> None:
    folder = stage.bring("results.json", "{}").parent
    for number in range(10_001):
        (folder / f"{number}").touch()
    stage.refused("holds more than 10,000 files")


def test_too_large_results_are_not_read(stage: Stage) -> None:
    file = stage.bring("results.json", "")
    os.truncate(file, publication.MOST_BYTES + 1)
    stage.refused("67,108,865 bytes, more than 67,108,864")


HOSTILE_DOCUMENTS = {
    "nothing": b"",
    "no JSON": b"root:x:0:0",
    "no object": b"[1, 2]",
    "deep lists": b"[" * 200_000,
    "deep objects": b'{"suite": ' * 100_000,
    "a deep field": b'{"suite": {}, "schema_version": 1, "cases": ' + b"[" * 900 + b"]" * 900 + b"}",
    "another version": b'{"suite": {}, "schema_version": 2}',
    "a version of 20 MB": b'{"suite": {}, "schema_version": "' + b"x" * 20_000_000 + b'"}',
    "a key of 20 MB": b'{"suite": {"' + b"y" * 20_000_000 + b'": 1}, "schema_version": 1}',
    "a number of 5,000 digits": b'{"suite": {}, "schema_version": ' + b"1" * 5000 + b"}",
    "NaN": b'{"suite": {}, "schema_version": NaN}',
    "no text": b'{"suite": "\xff", "schema_version": 1}',
    "half a character": b'{"suite": "\\ud800", "schema_version": 1}',
    "commands": b'{"suite": {"\\n::set-output name=verdict::passed\\n": 1}, "schema_version": "\\n::error::no"}',
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if "20 MB" in name else []) for name in HOSTILE_DOCUMENTS]
)
def test_what_is_no_record_is_refused(stage: Stage, name: str) -> None:
    stage.bring("results.json", HOSTILE_DOCUMENTS[name])
    stage.refused("results.json: ")


def test_another_document_is_refused(stage: Stage, finished: Project) -> None:
    stage.bring("results.json", (finished.folder / "out" / "verdict.json").read_bytes())
    stage.refused("its schema_version or its suite is missing")


def test_names_of_the_artifact_are_plain_text(stage: Stage) -> None:
    stage.bring("a\n::error::x\x1b[31m\u202e/results.json", "{}")
    stage.refused("not a results file")


def test_a_suite_whose_run_has_not_ended_keeps_the_others_from_passing(stage: Stage, finished: Project) -> None:
    stage.bring("one/results.json", resealed(_record(finished, "good")))
    stage.bring("two/journal.jsonl", "{}\n")
    ended = stage.run()
    assert (ended.code, ended.outputs["verdict"]) == (4, "stopped")
    assert "artifact/two" in ended.summary
    assert "not run: artifact/two" in next(command for command in ended.meant if command.name == "error").data
    (comment,) = ours(stage.repository)
    assert not comment["body"].splitlines()[2].startswith("## ✅")
    assert latest_check(stage.repository, HEAD, "holodeck-action: artifact")["conclusion"] == "failure"


def test_a_journal_alone_is_no_result(stage: Stage) -> None:
    stage.bring("journal.jsonl", "{}\n")
    ended = stage.run({"publish": "artifact/journal.jsonl"})
    assert (ended.code, "is a journal, not a results.json" in ended.text) == (2, True)


@pytest.mark.parametrize("name", ["../..", "/etc", "a)](http://evil.example)", "@octo/team", "`|\n# <img src=x>"])
def test_hostile_names_are_code(stage: Stage, finished: Project, name: str) -> None:
    record = _record(finished)
    record["suite"]["name"] = name
    record["suite"]["file"] = name
    record["provenance"]["folder"] = name
    record["provenance"]["target"] = name
    for case in record["cases"]:
        case["source"]["file"] = name
        case["name"] = f"{name} {case['name']}"
    stage.bring("results.json", resealed(record))
    ended = stage.run()

    assert (ended.code, ended.outputs["verdict"]) == (1, "failed")
    (comment,) = ours(stage.repository)
    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)|^(```+)text$.*?^\2$", "", comment["body"], flags=re.DOTALL | re.M)
    shown = re.sub(r"\]\([^)]*\)", "", outside.partition("-->")[2].partition("-->")[2])
    for part in ("@octo", "evil.example", "<img"):
        assert part not in shown
    addresses = re.findall(r"\]\(([^)]*)\)", outside)
    assert addresses
    assert [address for address in addresses if not address.startswith(f"https://github.com/{REPOSITORY}/")] == []
    assert [address for address in addresses if ".." in address] == []
    for mark in latest_check(stage.repository, HEAD, "holodeck-action: artifact")["annotations"]:
        assert not mark["path"].startswith(("/", ".."))


def test_secrets_of_this_side_are_taken_out(stage: Stage, finished: Project) -> None:
    text = json.dumps(_record(finished)).replace("no idea", f"{SECRET} ghs_token-of-the-job")
    assert SECRET in text
    stage.bring("results.json", resealed(json.loads(text)))
    ended = stage.run()
    assert ended.code == 1
    shown = [ended.summary, ended.text, *(comment["body"] for comment in ours(stage.repository))]
    shown.append(json.dumps(latest_check(stage.repository, HEAD, "holodeck-action: artifact")))
    for part in shown:
        assert SECRET not in part
        assert "ghs_token-of-the-job" not in part


def test_a_record_without_cases_passes_nothing(stage: Stage, finished: Project) -> None:
    record = _record(finished) | {"cases": []}
    stage.bring("results.json", resealed(record))
    ended = stage.run()
    outcome = decide(read_record(stage.base.folder / "artifact" / "results.json")).outcome
    assert ended.outputs["verdict"] == outcome
    assert len(ours(stage.repository)) == 1


def test_a_record_of_hundreds_of_cases(stage: Stage, finished: Project) -> None:
    record = _record(finished)
    failing = next(case for case in record["cases"] if "refund" in case["id"])
    failing["trials"][0]["turns"][0]["response"] = "@octocat <b> ``` " * 200
    record["cases"] = [failing | {"id": f"case-{number}", "name": f"@case {number}"} for number in range(400)]
    stage.bring("results.json", resealed(record))
    ended = stage.run()
    assert (ended.code, ended.outputs["failed"]) == (1, "400")
    (comment,) = ours(stage.repository)
    assert len(comment["body"].encode()) <= 65_535
    assert "400" in comment["body"]


@pytest.mark.full
def test_the_template_is_that_of_the_default_branch(stage: Stage, finished: Project) -> None:
    stage.bring("results.json", resealed(_record(finished)))
    stage.base.write(".github/mine.md.j2", "Ours: {{ report.suite|code }}\n")
    for name in (".github/mine.md.j2", "mine.md.j2", "summary.md.j2", "templates/comment.md.j2", "report.md"):
        stage.bring(name, "[theirs](http://evil.example)\n")
    ended = stage.run({"template": ".github/mine.md.j2"})
    (comment,) = ours(stage.repository)
    assert comment["body"].rstrip().endswith("Ours: `shop`")
    assert "theirs" not in comment["body"] + ended.summary
    # What the artifact has beside its results was not made here.
    assert ended.outputs["report-path"] == ""


# Records that contradict themselves.


def _undated(record: dict[str, Any]) -> None:
    record["run"]["started_at"] = ""


def _without_turns(record: dict[str, Any]) -> None:
    for case in record["cases"]:
        for trial in case["trials"]:
            trial["turns"] = []


def _of_same_trials(record: dict[str, Any]) -> None:
    for case in record["cases"]:
        case["trials"] *= 3


def _of_same_cases(record: dict[str, Any]) -> None:
    record["cases"] *= 2


def _of_endless_weights(record: dict[str, Any]) -> None:
    for case in record["cases"]:
        case["weight"] = 1e308


def _planning_more(record: dict[str, Any]) -> None:
    for case in record["cases"]:
        case["planned_evaluations"] = 10**12


CONTRADICTIONS: dict[Callable[[dict[str, Any]], None], str] = {
    _undated: "cannot be judged: ValueError",
    _without_turns: "",
    _of_same_trials: "",
    _of_same_cases: "two of its cases have the same id",
    _of_endless_weights: "the weight of a case is 1e+308",
    _planning_more: "",
}


@pytest.mark.parametrize("change", CONTRADICTIONS)
def test_a_record_that_fits_the_schema_and_makes_no_sense(
    stage: Stage, finished: Project, change: Callable[[dict[str, Any]], None]
) -> None:
    record = _record(finished)
    change(record)
    file = stage.bring("results.json", resealed(record))
    if CONTRADICTIONS[change]:
        stage.refused(CONTRADICTIONS[change])
        return
    ended = stage.run()
    assert ended.code == decide(read_record(file)).exit_code
    assert ended.code != 0
    assert len(ours(stage.repository)) == 1


def _places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield from _places(item, (*path, key))


VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 10**9, 2**70, 0.5, -0.5, 1e308, "", "x", "passed", "failed", "../..", [], {},
)  # fmt: skip
GONE = object()


def _mutated(record: dict[str, Any], changes: list[tuple[int, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(json.dumps(record))
    for number, value in changes:
        places = list(_places(result))
        if not places:
            break
        *parents, last = places[number % len(places)]
        container: Any = result
        for key in parents:
            container = container[key]
        if value is GONE:
            del container[last]
        elif callable(value):
            container[last] = value(container[last])
        else:
            container[last] = value
    return result


def _twice(value: Any) -> Any:
    return [*value, *value] if isinstance(value, list) else value


def _reversed(value: Any) -> Any:
    return value[::-1] if isinstance(value, list | str) else value


def _negative(value: Any) -> Any:
    return -value if isinstance(value, int | float) else value


def _other(value: Any) -> Any:
    """Another value of the same type, which the schema often takes."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return f"{value}x"
    return value[:-1] if isinstance(value, list) else value


def _shorter(value: Any) -> Any:
    return value[1:] if isinstance(value, list | str) else value


ALTERED = st.sampled_from([_twice, _reversed, _negative, _other, _shorter])
REPLACED = st.sampled_from([*VALUES, GONE]) | st.text(max_size=8) | st.integers() | st.floats()
CHANGES = st.lists(st.tuples(st.integers(0, 10_000), ALTERED | ALTERED | REPLACED), min_size=1, max_size=3)


@pytest.fixture(scope="module")
def mutants(finished: Project, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., None]]:
    """Publishes mutated records on a GitHub of their own, in this process, and judges what came of it."""
    folder = tmp_path_factory.mktemp("mutants")
    records = [_record(finished), _record(finished, "good")]
    with FakeGitHub() as hub:
        repository = hub.add_repository(REPOSITORY)
        repository.add_pull(7, head_sha=HEAD, head_repository="mallory/shop", branch="topic", files=FILES)
        hub.add_token("ghs_x", Token("github-actions[bot]", permissions=WRITES))
        environ = event_environ("workflow_run.fork", folder, GITHUB_API_URL=hub.url)
        environ |= {"GITHUB_WORKSPACE": str(folder), "INPUT_PUBLISH": "results.json", "INPUT_GITHUB-TOKEN": "ghs_x"}

        def publish(failing: bool, changes: list[tuple[int, Any]]) -> None:
            file = folder / "results.json"
            file.write_text(resealed(_mutated(records[not failing], changes)), encoding="utf-8")
            for name in ("output", "summary"):
                (folder / name).write_text("")
            log = io.StringIO()
            files = {"GITHUB_OUTPUT": str(folder / "output"), "GITHUB_STEP_SUMMARY": str(folder / "summary")}
            code = main((), {**environ, **files}, folder, io.StringIO(), log, log, pause=lambda _: None)

            outputs = dict(read_pairs((folder / "output").read_text(encoding="utf-8")))
            assert code in (0, 1, 2, 3, 4)
            assert outputs["exit-code"] == str(code)
            assert "Traceback" not in log.getvalue()
            assert "has a defect" not in log.getvalue() + (folder / "summary").read_text(encoding="utf-8")
            assert len(repository.comments(7)) <= 1
            assert hub.violations == []
            try:
                judged = decide(read_record(file)).exit_code
            except (RecordError, ArithmeticError, ValueError, LookupError, TypeError):
                judged = 2
            assert code == 2 if judged == 2 else code in (judged, 2)

        yield publish


@pytest.mark.full
@settings(suppress_health_check=[HealthCheck.too_slow])
@given(failing=st.booleans(), changes=CHANGES)
def test_a_record_that_contradicts_itself_is_judged_or_refused(
    mutants: Callable[..., None], failing: bool, changes: list[tuple[int, Any]]
) -> None:
    mutants(failing, changes)


def test_a_record_of_another_commit_is_not_shown_as_the_heads(
    publish: Publish, repository: Repository, finished: Project
) -> None:
    old = finished.copy_to(finished.folder.with_name(f"{finished.folder.name}-old"))
    old.write(".git/HEAD", "9" * 40 + "\n")
    suite(old)
    old.run("run", "-o", "out")
    ended = publish(str(old.out), "--pull-request", "7")
    assert ended.code == 0
    assert "commit 999999999999 was evaluated, but the pull request #7 is at commit" in ended.stdout
    assert _of(repository, "alice") == []
    assert publish(str(old.out), "--pull-request", "7", "--require-publish").code == 5


def test_what_is_off_needs_no_token_and_no_github(hub: FakeGitHub, publish: Publish) -> None:
    flags = ("--pull-request", "7", "--comment", "off", "--no-check", "--require-publish")
    ended = publish("good", *flags, token="")
    assert (ended.code, "note:" in ended.stdout) == (0, False)
    assert hub.requests == []
