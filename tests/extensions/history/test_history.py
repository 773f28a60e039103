"""`run --history`, `history show` and `history import`: runs that are added, shown, and read back."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.commands.project import Project
from tests.fields.runs import lettered
from tests.record.records import resealed
from tests.reports.pages import Page


def lines(project: Project, folder: str = "past") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (project.folder / folder / "history.jsonl").read_text().splitlines()]


def at_commit(project: Project, letter: str) -> None:
    project.write(".git/HEAD", f"{letter * 40}\n")


def shown(project: Project, *arguments: str) -> str:
    finished = project.run("history", "show", "past", *arguments)
    assert finished.code == 0, finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Four runs at three commits, the last one worse."""
    project = Project(tmp_path_factory.mktemp("made"))
    for commit, wrong in (("a", ()), ("b", (1,)), ("b", ()), ("c", (0, 1, 2, 3, 4, 5))):
        at_commit(project, commit)
        project.numbered(12, frozenset(wrong))
        assert project.run("run", "-o", "out", "--history", "past").code == (1 if wrong else 0)
    return project


@pytest.fixture
def four(made: Project, tmp_path: Path) -> Project:
    return made.copy_to(tmp_path)


@pytest.mark.proves("run: --history")
def test_each_run_is_a_line_and_the_newest_results_of_a_commit_are_kept(four: Project) -> None:
    found = lines(four)
    assert [line["commit"][0] for line in found] == ["a", "b", "b", "c"]
    assert [line["pass_rate"]["value"] for line in found] == [1.0, 11 / 12, 1.0, 0.5]
    assert [line["failing"] for line in found][1] == ["case-1"]
    assert found[3]["metrics"]["equality"]["mean"]["cases"] == 12
    assert found[3]["record_digest"] == four.verdict()["record_digest"]
    records = sorted((four.folder / "past").glob("records/*/*.json.gz"))
    assert [file.parent.name[0] for file in records] == ["a", "b", "c"]
    assert gzip.decompress(records[2].read_bytes()) == (four.out / "results.json").read_bytes()
    schema = json.loads(four.run("schema", "history").stdout)
    for line in found:
        jsonschema.validate(line, schema)


def test_without_history_nothing_is_written(project: Project) -> None:
    lettered(project, "P")
    project.run("run", "-o", "out")
    assert not list(project.folder.rglob("*.jsonl.gz"))
    assert "history" not in (project.out / "report.md").read_text().lower()
    assert json.loads(project.run("report", "out/results.json", "--format", "json").stdout)["history"] is None


def test_the_report_shows_the_history_and_shows_it_again_without_the_folder(four: Project) -> None:
    shutil.rmtree(four.folder / "past")
    report = json.loads(four.run("report", "out/results.json", "--format", "json").stdout)["history"]
    assert report["pass_rate"]["values"] == [1.0, 11 / 12, 1.0, 0.5]
    assert report["pass_rate"]["spark"] == "█▇█▁"
    assert [(case["id"], case["flaky"]) for case in report["flaky"]] == [("case-1", 2)]
    assert "| `equality` | `█▇█▁` | 0.50 |" in (four.out / "report.md").read_text()
    assert "pass rate  █▇█▁  0.50" in four.run("report", "out/results.json").stdout
    assert "pass rate  █▇█▁  0.50" in four.run("decide", "out/results.json").stdout
    page = four.run("report", "out/results.json", "--format", "html").stdout
    past = Page(page).head["history"]
    assert [run["pass_rate"] for run in past] == [1.0, 11 / 12, 1.0, 0.5]
    assert [run["metrics"] for run in past] == [[1.0], [11 / 12], [1.0], [0.5]]
    canonical = four.run("report", "out/results.json", "--format", "json", "--canonical").stdout
    assert json.loads(canonical)["history"] is None


def test_a_run_without_history_does_not_show_an_earlier_one(four: Project) -> None:
    four.run("run", "-o", "out")
    assert not (four.out / "earlier-runs.jsonl").exists()
    assert "history" not in (four.out / "report.md").read_text().lower()


@pytest.mark.proves("history show: FOLDER --format")
def test_the_history_is_shown_in_every_format(four: Project) -> None:
    text = shown(four)
    assert text.startswith("agent.yaml: 4 runs\n")
    assert len(re.findall(r"^20\d\d-.* (passed|failed) ", text, re.MULTILINE)) == 4
    assert "equality   █▇█▁  0.50" in text
    assert "| `equality` | `█▇█▁` | `0.50` |" in shown(four, "--format", "markdown")
    data = json.loads(shown(four, "--format", "json"))
    assert data["agent.yaml"]["history"]["metrics"][0]["latest"] == 0.5
    missing = four.run("history", "show", "elsewhere")
    assert missing.code == 2
    assert "elsewhere/history.jsonl: holds no run" in missing.stderr


def test_results_that_change_at_one_commit_are_a_drift(project: Project) -> None:
    at_commit(project, "a")
    for wrong in (frozenset[int](), frozenset(range(40))):
        project.numbered(50, wrong)
        project.run("run", "-o", "out", "--history", "past")
    sentence = "equality moved at commit aaaaaaa with the same suite: 1.000 ["
    assert sentence in shown(project)
    assert sentence in (project.out / "report.md").read_text()


def test_incomplete_filtered_and_stopped_runs_are_marked_and_in_no_trend(four: Project) -> None:
    four.run("run", "--history", "past", "--case", "case 11")
    for answer, code in (("0", 3), ("wrong", 1)):
        four.answers([{"case": "case 0", "response": answer}])
        assert four.run("run", "--history", "past").code == code
    found = lines(four)[4:]
    assert [(line["outcome"], line["complete"], line["partial"]) for line in found] == [
        ("passed", True, True),
        ("incomplete", False, False),
        ("failed", False, False),
    ]
    text = shown(four)
    assert re.findall(r"^20.*? {2}\w+ {2}(\S.*?) {2}", text, re.MULTILINE)[4:] == [
        "passed, filtered",
        "incomplete",
        "failed, incomplete",
    ]
    assert "equality   █▇█▁  0.50" in text
    assert len(list((four.folder / "past").glob("records/*/*.json.gz"))) == 3


def test_flaky_cases_and_quarantine_in_runs_of_several_trials(project: Project) -> None:
    quarantine = [{"case": "case 1", "reason": "slow", "owner": "me", "expires": "2999-01-01"}]
    for trials in ("PP", "FP", "PP", "FP", "FP", *["PP"] * 5):
        lettered(project, f"{trials} PP", {"trials": {"repeat": 2, "min_pass": 1}, "quarantine": quarantine})
        assert project.run("run", "-o", "out", "--history", "past").code == 0
    text = shown(project)
    assert "case-0: flaky in 3 of the last 10 runs\n" in text
    assert "advice: case-1 passed its last 10 runs: release it from quarantine\n" in text
    assert "advice: case-0 was flaky in 3 of the last 10 runs: consider quarantine\n" in text
    assert text.partition("pass rate")[2].count("advice") == 2
    found = lines(project)
    assert [line["flaky"] for line in found][:4] == [[], ["case-0"], [], ["case-0"]]
    assert found[0]["quarantined"] == {"case-1": "passed"}


def test_a_broken_line_is_noted_and_kept(four: Project) -> None:
    file = four.folder / "past" / "history.jsonl"
    file.write_bytes(b'{"version": 1, "suite": "\xe2\x80\xae::error::"}\n' + file.read_bytes()[:-30])
    finished = four.run("run", "--history", "past", "-o", "out")
    assert "note: past/history.jsonl: 2 lines are skipped; the first: line 1 is not a run" in finished.stderr
    assert len(file.read_bytes().splitlines()) == 6
    assert "agent.yaml: 4 runs" in shown(four)


def test_a_folder_that_cannot_be_used_is_refused_before_the_run(four: Project) -> None:
    four.write("file", "")
    finished = four.run("run", "--history", "file", "-o", "again")
    assert finished.code == 2
    assert "file/history.jsonl: cannot be read: Not a directory" in finished.stderr
    assert not (four.folder / "again").exists()


def test_a_history_that_cannot_be_written_changes_no_verdict(project: Project) -> None:
    lettered(project, "P")
    project.write("past/records", "a file is in the way")
    finished = project.run("run", "--history", "past")
    assert finished.code == 0
    assert "note: the run was not added to the history: past/records" in finished.stderr


def test_runs_at_the_same_time_lose_no_line(project: Project) -> None:
    lettered(project, "P F")
    running = [project.start("run", "--history", "past") for _ in range(6)]
    for process in running:
        _, errors = process.communicate(timeout=100)
        assert process.returncode == 1, errors
        assert "history" not in errors
    assert len(lines(project)) == 6
    assert "agent.yaml: 6 runs" in shown(project)


@pytest.mark.proves("history import: RESULTS --into")
def test_results_of_earlier_runs_are_imported_once(four: Project) -> None:
    four.run("run", "-o", "more/one")
    shutil.copytree(four.out, four.folder / "more" / "two")
    finished = four.run("history", "import", "more", "out/results.json", "--into", "new/past")
    assert (finished.code, finished.stdout) == (0, "imported 2 runs, 1 known\n")
    found = lines(four, "new/past")
    assert [line["time"] for line in found] == sorted(line["time"] for line in found)
    assert lines(four)[3] in found
    assert four.run("history", "import", "more", "--into", "new/past").stdout == "imported 0 runs, 2 known\n"
    four.write("more/three/results.json", "{")
    finished = four.run("history", "import", "more", "--into", "other")
    assert finished.code == 2
    assert "more/three/results.json: not a results file" in finished.stderr
    assert not (four.folder / "other").exists()


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        (("provenance", "commit"), "../../../elsewhere", "the record is not a run: commit: "),
        (("provenance", "commit"), "", "the record is not a run: commit: "),
        (
            ("run", "started_at"),
            "2026-01-01T00:00:00",
            "the record is not a run: `time` must be a time with an offset, such as 2026-01-31T12:00:00Z",
        ),
    ],
)
def test_a_record_that_no_run_has_written_is_not_imported(
    four: Project, path: tuple[str, str], value: str, why: str
) -> None:
    document = json.loads((four.out / "results.json").read_bytes())
    document[path[0]][path[1]] = value
    (four.out / "results.json").write_text(resealed(document))
    finished = four.run("history", "import", "out", "--into", "deep/new")
    assert finished.code == 2
    assert f"out/results.json: {why}" in finished.stderr
    assert not (four.folder / "deep").exists()
    # A report shows the other runs.
    shown = json.loads(four.run("report", "out/results.json", "--format", "json").stdout)
    assert len(shown["history"]["runs"]) == 3


def test_results_that_were_graded_again_are_no_run(four: Project) -> None:
    four.run("rejudge", "out/results.json", "-o", "again")
    finished = four.run("history", "import", "again", "--into", "new")
    assert finished.stdout == "imported 0 runs\n"
    assert "note: again/results.json: skipped: its answers were graded again" in finished.stderr


def test_several_suites_share_a_history(project: Project) -> None:
    for name in ("one", "two"):
        lettered(Project(project.folder / name), "P P")
    project.write(".git/HEAD", "a" * 40)
    project.run("run", "one", "two", "-o", "out", "--history", "past")
    assert [line["suite"] for line in lines(project)] == ["one/agent.yaml", "two/agent.yaml"]
    assert len(list((project.folder / "past").glob("records/*/*.json.gz"))) == 2
    assert shown(project).count("1 run\n") == 2


def test_old_results_are_thinned_and_their_lines_stay(project: Project) -> None:
    lettered(project, "P")
    project.run("run", "-o", "out")
    document = (project.out / "results.json").read_text()
    for day in range(40):
        at = f"2026-{1 + day // 28:02}-{1 + day % 28:02}T00:00:00+00:00"
        changed = re.sub(r'"started_at": "[^"]*"', f'"started_at": "{at}"', document)
        changed = changed.replace('"commit": null', f'"commit": "{day:040x}"')
        assert changed.count(at) == 1
        project.write(f"days/{day}/results.json", resealed(json.loads(changed)))
    assert project.run("history", "import", "days", "--into", "past").stdout == "imported 40 runs\n"
    assert len(lines(project)) == 40
    kept = {file.name for file in (project.folder / "past" / "records").iterdir()}
    newest = {f"{day:040x}" for day in range(10, 40)}
    assert newest < kept
    assert 30 < len(kept) < 34


def test_runs_of_a_history_are_compared_by_commit_and_by_position(four: Project) -> None:
    for base, head, regressed in (
        ("-4", "-1", 6),
        ("aaaa", "out", 6),
        ("a" * 40, "bbbb", 0),
        ("-1", "out/results.json", 0),
        ("out", "aaaa", 0),
    ):
        finished = four.run("compare", "--history", "past", "--format", "json", "--", base, head)
        assert finished.code == (1 if regressed else 0), finished.stderr
        assert len(json.loads(finished.stdout)["comparison"]["regressed"]) == regressed


@pytest.mark.parametrize(
    ("run", "why"),
    [
        ("-5", "the history has no run '-5' among its 4; give 4 or more characters of its commit"),
        ("aaa", "has no run 'aaa'"),
        ("dddd", "has no run 'dddd'"),
        ("-0", "has no run '-0'"),
    ],
)
def test_a_run_that_a_history_does_not_have_is_refused(four: Project, run: str, why: str) -> None:
    finished = four.run("compare", "--history", "past", "--", run, "out")
    assert finished.code == 2
    assert why in finished.stderr


def test_results_that_are_damaged_or_gone_are_refused(four: Project) -> None:
    [file] = (four.folder / "past" / "records" / ("c" * 40)).iterdir()
    for content, why in ((b"\x1f\x8b", "is damaged"), (None, "are no longer kept")):
        if content is None:
            file.unlink()
        else:
            file.write_bytes(content)
        finished = four.run("compare", "--history", "past", "--", "-1", "out")
        assert finished.code == 2
        assert why in finished.stderr


def test_a_run_of_a_history_of_several_suites_is_of_the_other_ones_suite(project: Project) -> None:
    for name in ("one", "two"):
        lettered(Project(project.folder / name), "P P")
    project.write(".git/HEAD", "a" * 40)
    project.run("run", "one", "two", "-o", "out", "--history", "past")
    assert project.run("compare", "--history", "past", "--", "-1", "out/two").code in (0, 3)
    finished = project.run("compare", "--history", "past", "--", "-1", "-1")
    assert finished.code == 2
    assert "the history has 2 suites (one/agent.yaml, two/agent.yaml)" in finished.stderr


BROKEN = (b'{"version": 1', b"\xff\xfe", b"[" * 2000, b"garbage")


def broken_in(project: Project, file: str, *more: bytes) -> None:
    """Put lines that are none before the last one of a file, and a number that overflows what is computed of it."""
    path = project.folder / file
    *before, last = path.read_bytes().splitlines()
    huge = json.loads(before[0])
    huge["metrics"]["equality"]["mean"]["value"] = -1.7e308
    path.write_bytes(b"\n".join([*before, json.dumps(huge).encode(), *more, last]) + b"\n")


READERS: dict[str, tuple[str, ...]] = {
    "history show": ("history", "past"),
    "history show markdown": ("history", "show", "past", "--format", "markdown"),
    "history show json": ("history", "show", "past", "--format", "json"),
    "history import": ("history", "import", "out", "--into", "past"),
    "compare": ("compare", "--history", "past", "--", "aaaa", "-1"),
    "export": ("export", "out/results.json", "--format", "honeyhive", "--history", "past"),
    "run": ("run", "-o", "new", "--history", "past"),
}


@pytest.mark.parametrize("name", READERS)
def test_a_broken_line_is_skipped_and_named_by_every_reader(four: Project, name: str) -> None:
    broken_in(four, "past/history.jsonl", *BROKEN)
    finished = four.run(*READERS[name])
    assert finished.code in (0, 1), finished.stderr
    notes = [line for line in finished.stderr.splitlines() if line.startswith("note: past/history.jsonl: ")]
    assert notes == [
        "note: past/history.jsonl: 4 lines are skipped; the first: line 5 is not JSON (also lines 6, 7 and 8)"
    ]
    assert b"\n".join(BROKEN) in (four.folder / "past" / "history.jsonl").read_bytes()


@pytest.mark.parametrize(
    "arguments",
    [
        ("report", "out"),
        ("report", "out", "--format", "markdown"),
        ("report", "out", "--format", "html"),
        ("report", "out", "--format", "json"),
        ("decide", "out"),
        ("export", "out/results.json", "--format", "honeyhive"),
    ],
)
def test_so_it_is_beside_the_results(four: Project, arguments: tuple[str, ...]) -> None:
    broken_in(four, "out/earlier-runs.jsonl", *BROKEN[:1])
    finished = four.run(*arguments)
    assert finished.code in (0, 1), finished.stderr
    assert "earlier-runs.jsonl: 1 line is skipped: line 4 is not JSON" in finished.stdout + finished.stderr


def test_what_stands_in_the_place_of_the_earlier_runs_is_named(four: Project) -> None:
    file = four.out / "earlier-runs.jsonl"
    file.unlink()
    file.symlink_to(four.folder / "past" / "history.jsonl")
    assert "earlier-runs.jsonl: is not read: it is a link" in four.run("report", "out").stdout
    file.unlink()
    file.mkdir()
    assert "earlier-runs.jsonl: is not read: Is a directory" in four.run("report", "out").stdout
    file.rmdir()
    assert "earlier-runs" not in four.run("report", "out").stdout


@pytest.mark.parametrize("rate", [-0.1, 1.1, 1e308])
def test_a_rate_that_is_none_is_a_broken_line(four: Project, rate: float) -> None:
    values = lines(four)[0]
    values["pass_rate"]["value"] = rate
    path = four.folder / "past" / "history.jsonl"
    path.write_bytes(path.read_bytes() + json.dumps(values).encode() + b"\n")
    finished = four.run("history", "show", "past")
    assert finished.stdout.startswith("agent.yaml: 4 runs\n")
    assert finished.stderr == (
        "note: past/history.jsonl: 1 line is skipped: line 5 is not a run: `pass_rate.value` must be from 0 to 1\n"
    )


def test_a_history_of_broken_lines_alone_says_which(project: Project) -> None:
    project.write("past/history.jsonl", "one\ntwo\n")
    finished = project.run("history", "show", "past")
    assert finished.code == 2
    assert "2 lines are skipped; the first: line 1 is not JSON (also line 2)" in finished.stderr
