"""Files of released versions: each later version reads them, with the same verdict and exit code (docs/stability.md).

`python -m scripts.record_release` made the records of a version before its release. Never change a folder of a released
version: what it has is what users have.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from scripts.describe_interface import interface
from scripts.record_release import digests, records
from tests.commands.project import Project
from tests.reports.pages import Page

RELEASED = Path(__file__).with_name("released")
VERSIONS = sorted(folder for folder in RELEASED.iterdir() if folder.is_dir())
LISTS = {
    # SHA-256 of digests.txt. A new version adds a line; a line that exists stays.
    "1.0": "89650f0399b280e863e55822c0f92d013c28ff4917c28cc7d90cb8b3fa74c1fa",
}
KEYED = {"OPENAI_API_KEY": "sk-none", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}
"""A key, so that suites of models are valid, and an address at which no one answers."""
TEXTS = ("reason", "warnings", "schema_version", "record_digest", "results_digest")


def _each(kind: str) -> pytest.MarkDecorator:
    found = [(version, name) for version in VERSIONS for name in _names(version, kind)]
    return pytest.mark.parametrize(("version", "name"), found, ids=[f"{v.name}-{name}" for v, name in found])


def _names(version: Path, kind: str) -> list[str]:
    if kind == "records":
        return [name for name, _ in records(version)]
    if kind == "suites":
        return sorted(folder.name for folder in (version / "suites").iterdir())
    runs = yaml.safe_load((version / "runs.yaml").read_text(encoding="utf-8"))
    # Models, times and earlier files do not come back.
    return [name for name in runs if name in ("standard", "incomplete", "certain", "conversation", "race", "traces")]


def without_texts(value: Any) -> Any:
    """A verdict without its sentences, whose words may change."""
    if isinstance(value, dict):
        return {name: without_texts(each) for name, each in value.items() if name not in TEXTS}
    return [without_texts(each) for each in value] if isinstance(value, list) else value


def assert_keeps(now: Any, then: Any, at: str = "verdict") -> None:
    """Fail unless `now` has all that `then` has; a later version may add keys."""
    if isinstance(then, dict):
        assert isinstance(now, dict), at
        for name, value in then.items():
            assert name in now, f"{at}.{name}"
            assert_keeps(now[name], value, f"{at}.{name}")
    elif isinstance(then, list):
        assert isinstance(now, list), at
        assert len(now) == len(then), at
        for number, (new, old) in enumerate(zip(now, then, strict=True)):
            assert_keeps(new, old, f"{at}[{number}]")
    else:
        assert now == then, at


def loaded(file: Path) -> Any:
    return json.loads(file.read_bytes())


@pytest.fixture
def copied(project: Project, version: Path, name: str) -> Project:
    """A project whose `out` is the record of a version."""
    shutil.copytree(version / "records" / name, project.out)
    return project


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version.name))
def test_the_files_of_a_release_never_change(version: Path) -> None:
    listed = (version / "digests.txt").read_text(encoding="utf-8")
    assert listed.splitlines() == digests(version)
    assert hashlib.sha256(listed.encode()).hexdigest() == LISTS[version.name]
    assert set(LISTS) == {folder.name for folder in VERSIONS}


@pytest.mark.full
@pytest.mark.needs
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version.name))
def test_nothing_that_is_stable_is_removed_or_renamed(version: Path) -> None:
    """All exit codes, inputs, options, fields, values and names for Python are there; there may be more."""
    assert_keeps(with_sets(interface()), with_sets(loaded(version / "interface.json")), "interface")


def with_sets(value: Any) -> Any:
    """An interface whose lists are keys, since their order and further members do not matter."""
    if isinstance(value, list):
        return dict.fromkeys(value)
    return {name: with_sets(each) for name, each in value.items()} if isinstance(value, dict) else value


@_each("records")
def test_decide_gives_the_same_verdict(copied: Project, version: Path, name: str) -> None:
    then = loaded(copied.out / "verdict.json")
    assert copied.run("decide", "out", "-o", "again").code == loaded(version / "exit_codes.json")[name]
    assert_keeps(without_texts(loaded(copied.folder / "again" / "verdict.json")), without_texts(then))


@_each("records")
def test_every_report_shows_it(copied: Project, version: Path, name: str) -> None:
    then = loaded(copied.out / "verdict.json")
    for form in ("markdown", "html", "junit", "csv", "console"):
        done = copied.run("report", "out", "--format", form)
        assert done.code == 0, (form, done.stderr)
        assert done.stdout.strip(), form
    report = json.loads(copied.run("report", "out", "--format", "json").stdout)
    assert (report["outcome"], report["exit_code"]) == (then["outcome"], then["exit_code"])
    assert report["pass_rate"] == then["pass_rate"]
    assert_keeps(report["counts"], then["counts"])


@pytest.mark.needs("history")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version.name))
def test_records_are_compared_merged_and_listed(version: Path, project: Project) -> None:
    shutil.copytree(version / "records", project.folder / "records")
    assert project.run("compare", "records/history/first", "records/history/second").code == 3
    worse = project.run("compare", "records/regression/base", "records/regression")
    assert worse.code == 1, worse.stderr
    assert "broken" in worse.stdout
    merged = project.run("merge", "records/shards/1", "records/shards/2", "-o", "merged")
    assert merged.code == loaded(version / "exit_codes.json")["shards/merged"], merged.stderr
    assert_keeps(
        without_texts(loaded(project.folder / "merged" / "verdict.json")),
        without_texts(loaded(project.folder / "records" / "shards" / "merged" / "verdict.json")),
    )
    shown = project.run("history", "records/history/history")
    assert shown.code == 0, shown.stderr
    assert shown.stderr == ""
    assert shown.stdout.count("incomplete") >= 2


@pytest.mark.races
@pytest.mark.needs("view")
@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: str(version.name))
def test_the_viewer_serves_them(version: Path, project: Project) -> None:
    names = [name for name, _ in records(version) if "/" not in name]
    for name in names:
        shutil.copytree(version / "records" / name, project.folder / "runs" / name)
    process = project.start("view", "--no-browser", "runs")
    try:
        assert process.stdout is not None
        address = urlsplit(process.stdout.readline().strip())
        pages = re.findall(r'<a href="(run/[0-9a-f]+/)">', _get(address.netloc, address.path))
        assert len(pages) == len(names)
        heads = [Page(_get(address.netloc, address.path + page)).head for page in pages]
        codes = loaded(version / "exit_codes.json")
        assert sorted(head["exit_code"] for head in heads) == sorted(codes[name] for name in names)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.communicate(timeout=60)


def _get(host: str, path: str) -> str:
    connection = http.client.HTTPConnection(host, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200, path
    return text


@pytest.mark.needs
@_each("suites")
def test_a_suite_stays_valid(project: Project, version: Path, name: str) -> None:
    shutil.copytree(version / "suites" / name, project.folder, dirs_exist_ok=True)
    done = project.run("validate", **KEYED)
    assert done.code == 0, done.stderr


@pytest.mark.needs
@_each("runs")
def test_a_suite_keeps_its_verdict(project: Project, version: Path, name: str) -> None:
    run = yaml.safe_load((version / "runs.yaml").read_text(encoding="utf-8"))[name]
    shutil.copytree(version / "suites" / run.get("suite", name), project.folder, dirs_exist_ok=True)
    [step] = run["commands"]
    done = project.run(*step["run"].split(), **KEYED)
    assert done.code == step["exit"], done.stderr
    for file in sorted(project.out.rglob("verdict.json")):
        then = loaded(version / "records" / name / file.relative_to(project.out))
        found = [{case["id"]: case["outcome"] for case in verdict["cases"]} for verdict in (loaded(file), then)]
        assert found[0] == found[1]
