"""A record that is not whole is refused by everything that reads one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.canonical import chosen_cases
from holodeck_action.record.parsed_record import RecordError
from holodeck_action.record.result_files import read_results
from tests.commands.project import Project
from tests.record.records import case, record

WRONG = "is incomplete: "


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Three cases, one of them answered wrongly, in out/results.json."""
    project = Project(tmp_path_factory.mktemp("made"))
    project.numbered(3, frozenset({1}))
    assert project.run("run", "-o", "out").code == 1
    return project


def test_record_and_verdict_are_bound(made: Project) -> None:
    found = read_results(made.out / "results.json")
    assert json.loads((made.out / "results.json").read_bytes())["digest"] == found.digest
    assert made.verdict()["results_digest"] == found.digest
    assert found.record.chosen == chosen_cases(case.id for case in found.record.cases)
    assert made.run("decide", "out/results.json", "-o", "again").code == 1
    judged = json.loads((made.folder / "again" / "verdict.json").read_bytes())
    assert judged == made.verdict()


def edited(change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """The file with one thing changed in its text, digest and all else as they were."""

    def edit(content: bytes) -> bytes:
        document = json.loads(content)
        change(document)
        return json.dumps(document, ensure_ascii=False, indent=1).encode() + b"\n"

    return edit


CHANGES: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "emptied": (edited(lambda d: d["cases"].clear()), "it holds 0 of the 3 chosen cases"),
    "a case less": (edited(lambda d: d["cases"].pop()), "it holds 2 of the 3 chosen cases"),
    "another case": (edited(lambda d: d["cases"][1].update(id="x")), "its cases differ from the chosen ones"),
    "emptied in step": (
        edited(lambda d: (d["cases"].clear(), d.update(chosen={"cases": 0, "digest": chosen_cases([]).digest}))),
        "it was edited or truncated",
    ),
    "nothing chosen": (edited(lambda d: d.pop("chosen")), "it does not record which cases were chosen"),
    "without a digest": (edited(lambda d: d.pop("digest")), "it has no digest at its end"),
    "of an older version": (edited(lambda d: d.update(schema_version=1)), "it was edited or truncated"),
    "answer": (lambda c: c.replace(b'"response":"wrong"', b'"response":"1"'), "it was edited or truncated"),
    "score": (lambda c: c.replace(b'"score":0.0', b'"score":1.0'), "it was edited or truncated"),
    "time": (lambda c: c.replace(b'"duration_ms": ', b'"duration_ms": 1', 1), "it was edited or truncated"),
    "gate": (lambda c: c.replace(b'"min_pass_rate": 1.0', b'"min_pass_rate": 0.1'), "it was edited or truncated"),
    "a space more": (lambda c: c.replace(b"{", b"{ ", 1), "it was edited or truncated"),
    "another digest": (lambda c: c[:-68] + b"0" * 64 + c[-4:], "it was edited or truncated"),
}


def sealed_anew(content: bytes) -> bytes:
    """The file with the digest that fits its content, as whoever forges one would write."""
    text = content[: content.rindex(b',\n "digest"')]
    return text + f',\n "digest": "{hashlib.sha256(text).hexdigest()}"\n}}\n'.encode()


def test_a_number_that_json_does_not_have_is_refused_and_its_name_in_a_text_is_not(
    made: Project, tmp_path: Path
) -> None:
    content = (made.out / "results.json").read_bytes()
    path = tmp_path / "results.json"
    path.write_bytes(sealed_anew(content.replace(b'"response":"wrong"', b'"response":"NaN: -Infinity"')))
    assert [turn.response for turn in read_results(path).record.turns].count("NaN: -Infinity") == 1
    for number in (b"NaN", b"-Infinity"):
        path.write_bytes(sealed_anew(content.replace(b'"score":0.0', b'"score":' + number)))
        with pytest.raises(RecordError, match=r"(it holds -?(NaN|Infinity)|JSON is malformed)"):
            read_results(path)


@pytest.mark.parametrize("name", CHANGES)
def test_what_is_not_whole_is_refused(made: Project, tmp_path: Path, name: str) -> None:
    change, sentence = CHANGES[name]
    content = (made.out / "results.json").read_bytes()
    changed = change(content)
    assert changed != content
    path = tmp_path / "results.json"
    path.write_bytes(changed)
    with pytest.raises(RecordError) as refused:
        read_results(path)
    assert str(refused.value).startswith(f"{path}: ")
    assert sentence in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("at", range(1, 100, 7))
def test_a_file_that_is_cut_anywhere_is_refused(made: Project, tmp_path: Path, at: int) -> None:
    content = (made.out / "results.json").read_bytes()
    path = tmp_path / "results.json"
    path.write_bytes(content[: len(content) * at // 100])
    with pytest.raises(RecordError):
        read_results(path)


COMMANDS = {
    "decide": ["decide", "bad.json"],
    "report": ["report", "bad.json"],
    "publish": ["publish", "bad.json", "--repository", "octo/shop", "--pull-request", "7"],
    "rejudge": ["rejudge", "bad.json"],
    "failed-from": ["run", "--failed-from", "bad.json"],
    "calibrate": ["calibrate", "labels.csv", "--results", "bad.json"],
}


@pytest.mark.needs
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_refuses_an_emptied_record(made: Project, tmp_path: Path, name: str) -> None:
    project = made.copy_to(tmp_path)
    project.write("bad.json", CHANGES["emptied"][0]((project.out / "results.json").read_bytes()))
    project.write("labels.csv", "case,label\ncase-0,pass\n")
    finished = project.run(*COMMANDS[name], GITHUB_TOKEN="ghs_0123456789")
    assert (finished.code, finished.stdout) == (2, ""), finished.stdout
    (line,) = finished.stderr.splitlines()
    assert f"bad.json: {WRONG}it holds 0 of the 3 chosen cases; use the file as the run wrote it" in line


def test_line_ends_do_not_matter(made: Project, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_bytes((made.out / "results.json").read_bytes().replace(b"\n", b"\r\n"))
    assert read_results(path) == read_results(made.out / "results.json")


def first_version(content: bytes, *, cases: int = 3) -> bytes:
    """The same record as a version before digests wrote it."""
    document = json.loads(content)
    for key in ("digest", "chosen"):
        del document[key]
    return json.dumps({**document, "schema_version": 1, "cases": document["cases"][:cases]}).encode()


def test_a_record_of_the_first_version_is_read_with_a_notice(made: Project, tmp_path: Path) -> None:
    project = made.copy_to(tmp_path)
    content = (project.out / "results.json").read_bytes()
    project.write("old.json", first_version(content))
    finished = project.run("decide", "old.json", "-o", "again")
    assert finished.code == 1
    assert "note: the results are of schema version 1, without a digest, so their completeness cannot be checked" in (
        finished.stdout
    )
    assert json.loads((project.folder / "again" / "verdict.json").read_bytes())["results_digest"] is None
    project.write("empty.json", first_version(content, cases=0))
    assert WRONG in project.run("decide", "empty.json").stderr


def test_an_empty_suite_that_was_allowed_stays_one(project: Project) -> None:
    project.suite([])
    project.policy(target="recorded:answers.jsonl")
    project.answers([{"case": "x", "response": "y"}])
    finished = project.run("run", "-o", "out", "--allow-empty")
    assert finished.code == 0, finished.stderr
    assert project.run("decide", "out/results.json").code == 0


@pytest.mark.parametrize("weight", [0.0, -1.0, 1e10, 1e308])
def test_a_weight_that_breaks_sums_is_refused(tmp_path: Path, weight: float) -> None:
    write_results(tmp_path, record(case("P", weight=weight)), decide(record(case("P"))))
    with pytest.raises(RecordError, match="the weight of a case is "):
        read_results(tmp_path / "results.json")


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    made = record(*[case(letters, repeat=2) for letters in ("PP", "PF", "E", "")])
    verdict = decide(made)
    write_results(tmp_path, made, verdict)
    found = read_results(tmp_path / "results.json")
    assert found.record == made
    assert decide(found.record) == verdict
    assert json.loads((tmp_path / "verdict.json").read_bytes())["results_digest"] == found.digest
    assert {path.name for path in tmp_path.iterdir()} == {"results.json", "verdict.json"}
