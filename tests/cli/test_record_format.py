"""Every command takes a record in Parquet as it takes a results.json, and says the same of it."""

from __future__ import annotations

import gc
import json
import os
import sys
from pathlib import Path

import pytest

from holodeck_action.results.canonical import canonical_json
from holodeck_action.results.result_files import read_record, read_results
from tests.cli.project import Finished, Project

METRICS = [{"type": "standard", "metric": name, "threshold": 0.5} for name in ("bleu", "f1_score")]
HOSTILE = 'caf\u00e9 \0 "\\ \u2028 \U0001f600 </script> NaN [x](y)\n'


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same run of four cases with results.json in `json`, and with results.parquet in `tables`."""
    project = Project(tmp_path_factory.mktemp("both"))
    answers = ["The order can be returned within thirty days.", "no", HOSTILE, ""]
    asked = answers[0]
    project.suite(
        [{"name": f"case {n}", "input": HOSTILE, "ground_truth": asked} for n in range(len(answers))], METRICS
    )
    project.answers(
        [
            {
                "case": f"case {n}",
                "response": text,
                "tool_invocations": [{"name": "find", "args": {"a": [1, 2.0, None]}}],
            }
            for n, text in enumerate(answers)
        ]
    )
    project.policy(target="recorded:answers.jsonl")
    assert project.run("run", "-o", "json", "--record-format", "json").code == 1
    assert project.run("export", "json", "--format", "parquet", "-o", "made/results.parquet").code == 2
    (project.folder / "made").mkdir()
    made = project.run("export", "json", "--format", "parquet", "-o", "made/results.parquet")
    assert (made.code, made.stdout, made.stderr) == (0, "", "")
    return project


@pytest.mark.proves("run: --record-format")
def test_a_run_writes_tables_that_hold_the_same_record(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path)
    finished = project.run("run", "-o", "out", "--record-format", "parquet")
    assert finished.code == 1
    names = {path.name for path in project.out.iterdir()}
    assert names == {"junit.xml", "report.html", "report.md", "results.parquet", "verdict.json"}
    found = read_results(project.out)
    assert canonical_json(found.record) == canonical_json(read_record(project.folder / "json"))
    assert project.verdict()["results_digest"] == found.digest
    # Another run puts it aside, whatever it writes itself.
    assert project.run("run", "-o", "out").code == 1
    assert (project.out / "results.json").is_file()
    assert not (project.out / "results.parquet").exists()
    assert read_results(project.out / "previous").digest == found.digest
    assert project.run("run", "-o", "out", "--record-format", "parquet").code == 1
    assert {path.name for path in project.out.iterdir()} == {*names, "previous"}
    assert not (project.out / "previous" / "results.parquet").exists()


def test_converting_there_and_back_gives_the_same_bytes(both: Project) -> None:
    there = both.run("export", "made/results.parquet", "--format", "json", "-o", "back.json")
    assert there.code == 0
    content = (both.folder / "json" / "results.json").read_bytes()
    assert (both.folder / "back.json").read_bytes() == content
    assert both.run("export", "made", "--format", "json").stdout.encode() == content


@pytest.mark.parametrize("given", ["made", "made/", "made/results.parquet", "made/results.parquet/manifest.json"])
def test_a_folder_its_record_and_its_manifest_name_the_same(both: Project, given: str) -> None:
    expected = both.run("decide", "json/results.json")
    assert (expected.code, expected.stderr) == (1, "")
    assert both.run("decide", given) == expected
    assert both.run("decide", "made/results.json") == expected
    assert both.run("decide", "json") == expected


COMMANDS = {
    "decide": ["decide", "RESULTS", "--min-pass-rate", "0.1"],
    "report": ["report", "RESULTS", "--format", "markdown"],
    "junit": ["report", "RESULTS", "--format", "junit"],
    "csv": ["report", "RESULTS", "--format", "csv"],
    "json": ["report", "RESULTS", "--format", "json"],
    "html": ["report", "RESULTS", "--format", "html"],
    "compare": ["compare", "json", "RESULTS"],
    "compare with": ["compare", "RESULTS", "json", "--format", "json"],
    "verify": ["verify", "RESULTS"],
    "honeyhive": ["export", "RESULTS", "--format", "honeyhive"],
    "failed-from": ["run", "--failed-from", "RESULTS", "--dry-run"],
    "publish": ["publish", "RESULTS", "--repository", "octo/shop", "--pull-request", "7"],
    "calibrate": ["calibrate", "labels.csv", "--results", "RESULTS", "--metric", "bleu"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_says_the_same_of_both(both: Project, name: str) -> None:
    both.write("labels.csv", "case,label\ncase-0,pass\ncase-1,fail\n")

    def said(results: str) -> Finished:
        found = both.run(*(results if part == "RESULTS" else part for part in COMMANDS[name]))
        texts = (text.replace("made/results.parquet", "RESULTS") for text in (found.stdout, found.stderr))
        return Finished(found.code, *(text.replace("json/results.json", "RESULTS") for text in texts))

    expected = said("json/results.json")
    assert said("made/results.parquet") == expected
    assert expected.stdout or expected.stderr


@pytest.mark.proves("rejudge: --record-format")
def test_answers_in_tables_are_graded_again(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path)
    for given, into in (("json", "one"), ("made", "other")):
        assert project.run("rejudge", given, "-o", into, "--record-format", "parquet").code == 1
    one, other = (read_record(project.folder / name / "results.parquet") for name in ("one", "other"))
    assert canonical_json(one) == canonical_json(other)
    refused = project.run("rejudge", "other", "-o", "other")
    assert refused.code == 2
    assert "the new record would replace other" in refused.stderr


@pytest.mark.proves("merge: --record-format")
def test_shards_in_tables_are_merged(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path)
    for number, form in ((1, "parquet"), (2, "json")):
        given = ("--shard", f"{number}/2", "-o", f"shards/{number}", "--record-format", form)
        assert project.run("run", *given).code == 0
    merged = project.run("merge", "shards", "-o", "out", "--record-format", "parquet")
    assert merged.code == 1, merged.stderr
    assert canonical_json(read_record(project.out / "results.parquet")) == canonical_json(
        read_record(project.folder / "json")
    )


def test_a_base_and_a_history_may_be_in_tables(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path)
    for base, into in (("json/results.json", "one"), ("made", "other"), ("made/results.parquet", "third")):
        assert project.run("run", "--baseline", f"file:{base}", "-o", into, "--record-format", "parquet").code == 1
        assert project.run("decide", into).code == 1
    bases = {(project.folder / into / "base" / "results.json").read_bytes() for into in ("one", "other", "third")}
    assert bases == {(project.folder / "json" / "results.json").read_bytes()}
    for given, into in (("json", "h1"), ("made", "h2")):
        assert project.run("history", "import", given, "--into", into).stdout == "imported 1 run\n"
    one, other = (json.loads((project.folder / name / "history.jsonl").read_bytes()) for name in ("h1", "h2"))
    assert one == other


def test_the_last_run_may_be_in_tables(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path)
    assert project.run("run", "--record-format", "parquet").code == 1
    assert project.run("decide").code == 1
    assert project.run("report", "--format", "csv").code == 0
    assert ": 3 cases," in project.run("run", "--failed-from", "--dry-run").stdout


def test_a_base_outside_of_the_checkout_is_out_of_reach(both: Project, tmp_path: Path) -> None:
    project = both.copy_to(tmp_path / "repository")
    (project.folder / "made").rename(tmp_path / "made")
    (project.folder / "made").symlink_to(tmp_path / "made")
    project.policy(target="recorded:answers.jsonl", baseline={"source": "file:made"})
    finished = project.run("run")
    assert finished.code == 2
    assert "made: " in finished.stderr


def test_what_belongs_to_another_format_is_refused(both: Project) -> None:
    finished = both.run("export", "made", "--format", "json", "--metric", "bleu", "--history", "h")
    assert (finished.code, finished.errors) == (
        2,
        ["--format json writes the record alone: leave out --metric, --history"],
    )
    finished = both.run("export", "made", "--format", "parquet")
    assert (finished.code, finished.errors) == (2, ["--format parquet writes a folder: name it with --output"])
    finished = both.run("export", "json", "--format", "parquet", "-o", "agent.yaml")
    assert (finished.code, finished.errors) == (2, ["agent.yaml: cannot be written: something else is there"])
    assert both.run("export", "json", "--format", "parquet", "-o", "json").code == 2
    assert (both.folder / "json" / "results.json").is_file()


def test_without_pyarrow_it_says_what_to_install(both: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    # What other tests have read may still have a process.
    gc.collect()
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    needed = (
        "needs the package pyarrow, which is not installed; install it with: pip install 'holodeck-action[parquet]'"
    )
    for arguments, said in (
        (["run", "-o", "out", "--record-format", "parquet"], f"--record-format parquet {needed}"),
        (["decide", "made"], f"made/results.parquet, part 0: Parquet {needed}"),
        (["export", "json", "--format", "parquet", "-o", "x"], f"x: cannot be written: Parquet {needed}"),
    ):
        finished = both.run(*arguments)
        assert (finished.code, finished.stdout, finished.errors) == (2, "", [said])


def test_its_process_sees_no_variable_and_ends_with_the_run(both: Project) -> None:
    record = read_record(both.folder / "made")
    assert len([*record.cases]) == 4
    children = Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children")
    if not children.exists():
        pytest.skip("the system does not tell of processes")
    (child,) = [
        each
        for each in children.read_text().split()
        if b"parquet.program" in Path(f"/proc/{each}/cmdline").read_bytes()
    ]
    assert Path(f"/proc/{child}/environ").read_bytes() == b""
    assert Path(f"/proc/{child}/cwd").resolve() == Path("/")
    del record
    gc.collect()
    assert not Path(f"/proc/{child}").exists()
