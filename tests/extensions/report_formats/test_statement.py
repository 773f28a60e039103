"""The in-toto statement says what is true, `verify --statement` finds each change, and GitHub's bundle is read, too."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.extensions.report_formats.statement import intoto
from holodeck_action.reports.conclusion import conclude
from holodeck_action.text.given_paths import GivenPath
from tests.commands.project import Finished, Project
from tests.reports.shown import varied

HEAD = "4f1c" * 10
TYPE = "https://in-toto.io/attestation/test-result/v0.1"


def checked_out(project: Project, head: str = HEAD) -> None:
    """Make the project's folder a checkout of a commit."""
    project.write(".git/HEAD", f"{head}\n")
    project.write(".git/config", "")


def stated(project: Project, wrong: frozenset[int] = frozenset(), *options: str) -> dict[str, Any]:
    project.numbered(3, wrong)
    project.run("run", "-o", "out", "--intoto", *options)
    made: dict[str, Any] = json.loads((project.out / "report.intoto.json").read_bytes())
    return made


def check(project: Project, statement: Any = None) -> Finished:
    if statement is not None:
        project.write("given.json", json.dumps(statement))
    return project.run("verify", "out", "--statement", "out/report.intoto.json" if statement is None else "given.json")


@pytest.mark.proves("run: --intoto", "verify: --statement")
def test_a_run_states_its_files_its_commit_and_its_verdict(project: Project) -> None:
    checked_out(project)
    made = stated(project)
    digests = [
        hashlib.sha256((project.out / name).read_bytes()).hexdigest() for name in ("results.json", "verdict.json")
    ]
    at_commit = {"digest": {"gitCommit": HEAD}, "name": "agent.yaml"}
    assert made == {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [
            {"digest": {"sha256": digests[0]}, "name": "results.json"},
            {"digest": {"sha256": digests[1]}, "name": "verdict.json"},
            at_commit,
        ],
        "predicateType": TYPE,
        "predicate": {
            "result": "PASSED",
            "configuration": [at_commit],
            "passedTests": ["case-0", "case-1", "case-2"],
            "warnedTests": [],
            "failedTests": [],
        },
    }
    written = (project.out / "report.intoto.json").read_text()
    assert project.run("export", "out", "--format", "intoto") == Finished(0, written, "")
    text = f"✓ out/report.intoto.json: PASSED, true of out/results.json and HEAD {HEAD}\n"
    assert check(project) == Finished(0, text, "")
    # What GitHub signs: the predicate, for files alone.
    signed = made | {"subject": made["subject"][:2]}
    payload = base64.b64encode(json.dumps(signed).encode()).decode()
    envelope = {"payloadType": "application/vnd.in-toto+json", "payload": payload}
    for whole in (envelope, {"mediaType": "application/vnd.dev.sigstore.bundle.v0.3+json", "dsseEnvelope": envelope}):
        assert check(project, whole).code == 0
    # Another checkout, and none.
    checked_out(project, "b" * 40)
    assert check(project).errors == [f"out/report.intoto.json: is about the commit {HEAD}, but HEAD is {'b' * 40}"]
    shutil.rmtree(project.folder / ".git")
    assert (check(project).code, check(project).stdout[:2]) == (3, "? ")


def test_only_a_verdict_without_exceptions_is_stated_as_passed(project: Project) -> None:
    checked_out(project)
    assert stated(project, frozenset({2}))["predicate"]["result"] == "FAILED"
    failed = check(project)
    assert (failed.code, failed.stdout[:1]) == (1, "✗")
    # Other gates decide the same results.
    assert project.run("gate", "out", "--min-pass-rate", "0.5", "--output-dir", "out").code == 0
    assert "has another result than out" in check(project).stderr
    project.run("export", "out", "--format", "intoto", "-o", "out/report.intoto.json")
    assert (check(project).code, check(project).stdout.split()[2]) == (0, "WARNED,")


def test_a_case_is_in_the_list_of_its_outcome(tmp_path: Path) -> None:
    made = varied()
    write_results(tmp_path, made, decide(made))
    statement = json.loads(b"".join(intoto(conclude(made), GivenPath(Path("results.json"), tmp_path))))
    predicate = statement["predicate"]
    assert predicate["result"] == "FAILED"
    assert predicate["passedTests"] == ["case-0", "case-6"]
    assert predicate["warnedTests"] == ["case-4"]
    # Failures, errors, and what did not run; what only informs is nowhere.
    assert predicate["failedTests"] == ["case-1", "case-7", "case-2", "case-3"]
    assert predicate["configuration"] == []


def _without(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda made: {key: value for key, value in made.items() if key != name}


def _predicate(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda made: made | {"predicate": made["predicate"] | changes}


CHANGES: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "no subject": (_without("subject"), "is not a readable in-toto statement"),
    "no type": (_without("_type"), "is not a readable in-toto statement"),
    "other predicate": (lambda made: made | {"predicateType": "x"}, "is not a readable in-toto statement"),
    "a word": (lambda made: "x", "is not a readable in-toto statement"),
    "no base64": (lambda made: {"payload": "?"}, "is not a readable in-toto statement"),
    "a number of base64": (lambda made: {"dsseEnvelope": {"payload": 1}}, "is not a readable in-toto statement"),
    "an envelope of text": (lambda made: {"dsseEnvelope": "payload"}, "is not a readable in-toto statement"),
    "no files": (
        lambda made: made | {"subject": []},
        "is about another results.json; out/results.json has the SHA-256 ",
    ),
    "no verdict": (lambda made: made | {"subject": made["subject"][:1]}, "is about another verdict.json; "),
    "renamed": (
        lambda made: made | {"subject": [each | {"name": "x"} for each in made["subject"]]},
        "is about another results.json; ",
    ),
    "better": (_predicate(result="PASSED"), "has another result than out"),
    "not a result": (_predicate(result="passed"), "is not a readable in-toto statement"),
    "other cases": (_predicate(failedTests=[]), "has another failed_tests than out"),
    "more cases": (_predicate(passedTests=["case-1", "case-9"]), "has another passed_tests than out"),
    "no commit": (_predicate(configuration=[]), "has another configuration than out"),
    "other commit": (
        _predicate(configuration=[{"name": "agent.yaml", "digest": {"gitCommit": "b" * 40}}]),
        "has another configuration than out",
    ),
}


def test_each_change_of_a_statement_is_found(project: Project) -> None:
    checked_out(project)
    made = stated(project, frozenset({2}))
    for name, (change, told) in CHANGES.items():
        finished = check(project, change(made))
        assert (finished.code, finished.stdout) == (2, ""), name
        assert finished.errors[0].startswith(f"given.json: {told}"), (name, finished.stderr)
    # Fields that a later version adds change nothing.
    assert check(project, made | {"more": 1}).code == 1
    assert "give one RESULTS" in project.run("verify", "out", "out", "--statement", "given.json").stderr
    assert "is not a readable" in project.run("verify", "out", "--statement", "missing.json").stderr


def test_each_change_of_the_files_is_found(project: Project) -> None:
    stated(project)
    # The run was in no checkout, so no commit vouches for its suite.
    checked_out(project)
    assert check(project).errors == [f"out/report.intoto.json: is about an unknown commit, but HEAD is {HEAD}"]
    judged = project.out / "verdict.json"
    kept = judged.read_bytes()
    judged.write_bytes(kept + b"\n")
    assert "is about another verdict.json" in check(project).errors[0]
    judged.write_bytes(kept.replace(b'"record_digest": "', b'"record_digest": "0'))
    told = "out/verdict.json: is not the verdict on out/results.json; write it with gate --output-dir"
    assert check(project).errors == [told]
    judged.unlink()
    assert project.run("export", "out", "--format", "intoto").errors == [told]
    judged.write_bytes(kept)
    results = project.out / "results.json"
    results.write_bytes(results.read_bytes().replace(b"case 1", b"case 0"))
    assert "does not match its digest" in check(project).stderr
