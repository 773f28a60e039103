"""Files of cases behind `run`: real processes, a model server and a web server on loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.record.record import Record, TurnRecord
from holodeck_action.run.identity import file_digests, run_identity
from holodeck_action.run.options.settings import merge_files
from holodeck_action.run.trial import Clock, Deadlines, TrialRunner
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.model.targets import parse_target
from holodeck_action.suite.values import Turn
from holodeck_action.targets.own_model.case_files import CaseFiles
from holodeck_action.text.redaction import Redactor
from tests.commands.project import Project
from tests.llm.models import KEY, FakeModels, Request
from tests.run.test_trial import Broken, Echo
from tests.targets.attachments.site import Site, in_turn, page
from tests.targets.documents.made import PNG, endless_pdf, excel, pdf, powerpoint, word
from tests.targets.test_own import PROVIDERS

pytestmark = pytest.mark.models(answer=lambda _: "yes")
PAGES = pdf(["First page", "Second page", "Third page"])


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server without pages."""
    site = Site()
    yield site
    site.close()


def asking(project: Project, models: FakeModels, *cases: list[dict[str, Any]], **top: Any) -> None:
    """Write a suite with a case for each list of files; every answer passes that is `yes`."""
    written = [
        {"name": f"case {number}", "input": "Is it?", "ground_truth": "yes", "files": files}
        for number, files in enumerate(cases)
    ]
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    project.suite(written, **{"model": model, **top})


def turn_of(record: Record, case: int = 0, turn: int = 0) -> TurnRecord:
    return record.cases[case].trials[0].turns[turn]


def error_of(record: Record, case: int = 0) -> tuple[str, str]:
    error = turn_of(record, case).error
    assert error is not None
    return error.code, error.message


def asked(request: Request) -> list[tuple[str, int]]:
    """Texts and numbers of images of the user's messages."""
    return [(message.text, message.images) for message in request.messages if message.role == "user"]


# -- what the model gets


@pytest.mark.full
@pytest.mark.proves("FileInput: type description pages sheet range")
def test_texts_and_images_of_files_are_asked_with_the_input(project: Project, models: FakeModels) -> None:
    files: list[dict[str, Any]] = [
        {"path": "docs/deal.pdf", "type": "pdf", "pages": [3, 1], "description": "The deal"},
        {"path": "photo.png", "type": "image", "description": "The product"},
        {"path": "sums.xlsx", "type": "excel", "sheet": "Q2", "range": "A1:B2"},
        {"path": "note.txt", "type": "text"},
        {"path": "rows.csv", "type": "csv"},
        {"path": "page.html", "type": "text"},
        {"path": "terms.docx", "type": "word"},
        {"path": "talk.pptx", "type": "powerpoint"},
    ]
    project.write("docs/deal.pdf", PAGES)
    project.write("photo.png", PNG)
    project.write("sums.xlsx", excel({"Q1": [["x"]], "Q2": [["name", "sum", "no"], ["a", 1, 2], ["b", 3, 4]]}))
    project.write("note.txt", "héllo")
    project.write("rows.csv", "a,b\n1,2")
    project.write("page.html", "<h1>Prices</h1>")
    project.write("terms.docx", word("Terms", "Thirty days"))
    project.write("talk.pptx", powerpoint([("One", "alpha")]))
    asking(project, models, files)
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    texts = (
        "Third page\n\nFirst page",
        "| name | sum |\n| --- | --- |\n| a | 1 |",
        "héllo",
        "a,b\n1,2",
        "# Prices",
        "# Terms\n\nThirty days",
        "<!-- Slide number: 1 -->\n# One\nalpha",
    )
    blocks = [
        f"File: docs/deal.pdf\nDescription: The deal\n{texts[0]}",
        "File: photo.png\nDescription: The product",
        *(f"File: {files[number + 1]['path']}\n{texts[number]}" for number in range(1, 7)),
        "Is it?",
    ]
    (request,) = models.requests
    assert asked(request) == [("\n\n".join(blocks), 1)]
    assert turn_of(record).context == texts


@pytest.mark.parametrize(("provider", "variable", "more"), PROVIDERS)
def test_every_provider_is_asked_with_texts_and_images(
    project: Project, models: FakeModels, provider: str, variable: str, more: dict[str, str]
) -> None:
    project.write("photo.png", PNG)
    project.write("note.txt", "héllo")
    files = [{"path": "photo.png", "type": "image"}, {"path": "note.txt", "type": "text"}]
    address = getattr(models, f"{provider.removesuffix('_openai')}_url")
    asking(project, models, files, model={"provider": provider, "name": "gpt-4o", "endpoint": address, **more})
    finished, _ = project.evaluate(**{variable: KEY})
    assert finished.code == 0, finished.stdout + finished.stderr
    (request,) = models.requests
    assert asked(request) == [("File: photo.png\n\nFile: note.txt\nhéllo\n\nIs it?", 1)]


def test_files_belong_to_their_turn(project: Project, models: FakeModels) -> None:
    project.write("one.txt", "1")
    turns = [
        {"input": "first", "ground_truth": "yes", "files": [{"path": "one.txt", "type": "text"}]},
        {"input": "second", "ground_truth": "yes"},
    ]
    asking(project, models)
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    project.suite([{"name": "talk", "turns": turns}], model=model)
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    first = ("File: one.txt\n1\n\nfirst", 0)
    assert [asked(request) for request in models.requests] == [[first], [first, ("second", 0)]]
    assert [turn.context for turn in record.cases[0].trials[0].turns] == [("1",), None]


@pytest.mark.proves("FileInput: path")
def test_paths_start_at_the_file_that_names_them(project: Project, models: FakeModels) -> None:
    case = {"input": "Is it?", "ground_truth": "yes", "files": [{"path": "a.txt", "type": "text"}]}
    project.write("data/a.txt", "there")
    project.write("data/cases.yaml", json.dumps([case]))
    asking(project, models, test_cases=None, test_cases_file="data/cases.yaml")
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert asked(models.requests[0]) == [("File: data/a.txt\nthere\n\nIs it?", 0)]


# -- trouble


def test_a_file_that_is_missing_is_a_configuration_error_at_its_line(project: Project, models: FakeModels) -> None:
    project.write("there.txt", "")
    asking(project, models, [{"path": "there.txt", "type": "text"}, {"path": "absent.pdf", "type": "pdf"}])
    finished = project.run("run", OPENAI_API_KEY=KEY)
    line = (project.folder / "agent.yaml").read_text().partition('"absent.pdf"')[0].count("\n") + 1
    assert finished.code == 2
    assert finished.stderr.startswith(f"error: agent.yaml:{line}:")
    assert "test_cases[0].files[1].path: the file does not exist (allowed: a path relative to" in finished.stderr
    assert models.requests == []


@pytest.mark.full
@pytest.mark.proves("FileInput: pages")
def test_a_file_that_cannot_be_read_is_the_turns_error_and_nothing_is_asked(
    project: Project, models: FakeModels
) -> None:
    project.write("a.pdf", PAGES)
    project.write("a.txt", "fine")
    project.write("broken.docx", "no Word")
    asking(
        project,
        models,
        [{"path": "a.txt", "type": "text"}, {"path": "a.pdf", "type": "pdf", "pages": [4]}],
        [{"path": "broken.docx", "type": "word"}],
        [{"path": "a.txt", "type": "image"}],
        [{"path": "a.txt", "type": "text"}],
    )
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    assert [error_of(record, case) for case in range(3)] == [
        ("bad_file", "the file a.pdf cannot be used: there is no page 4: it has 3 pages"),
        (
            "bad_file",
            "the file broken.docx cannot be used: the file is not a valid Word file (.docx): File is not a zip file",
        ),
        ("bad_file", "the file a.txt cannot be used: the file is not a PNG, JPEG, GIF or WebP image"),
    ]
    assert [asked(request) for request in models.requests] == [[("File: a.txt\nfine\n\nIs it?", 0)]]


@pytest.mark.full
@pytest.mark.proves("ExecutionConfig: file_timeout")
def test_a_conversion_ends_at_its_deadline(project: Project, models: FakeModels) -> None:
    project.write("slow.pdf", endless_pdf())
    asking(project, models, [{"path": "slow.pdf", "type": "pdf"}], execution={"file_timeout": 0.5})
    finished, record = project.evaluate(OPENAI_API_KEY=KEY, HOLODECK_FILE_TIMEOUT="60")
    assert finished.code == 3, finished.stdout + finished.stderr
    assert "the PDF file was not read within 0.5 s" in error_of(record)[1]
    assert models.requests == []


@pytest.mark.full
def test_without_the_packages_documents_are_refused_and_texts_are_not(project: Project, models: FakeModels) -> None:
    project.write("a.pdf", PAGES)
    project.write("a.txt", "text")
    without = "import sys; sys.modules['markitdown'] = None; from holodeck_action.cli import start; start()"
    ended = []
    for file in ({"path": "a.pdf", "type": "pdf"}, {"path": "a.txt", "type": "text"}):
        asking(project, models, [file])
        ended.append(
            subprocess.run(
                [sys.executable, "-c", without, "run"],
                cwd=project.folder,
                env=project.environ(OPENAI_API_KEY=KEY),
                capture_output=True,
                text=True,
                timeout=100,
            )
        )
    assert [each.returncode for each in ended] == [2, 0]
    needed = "a.pdf: reading a PDF file needs the `files` extra, which is not installed; run pip install"
    assert f"{needed} 'holodeck-action[files]'" in ended[0].stderr
    assert len(models.requests) == 1


def test_settings_that_say_nothing_about_a_file_are_noticed(project: Project, models: FakeModels) -> None:
    project.write("a.txt", "a")
    asking(
        project, models, [{"path": "a.txt", "type": "text", "pages": [1], "sheet": "s", "range": "A1", "cache": True}]
    )
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [notice.partition(": ")[2] for notice in record.notices if ": files: " in notice] == [
        "files: pages has no effect on a.txt, which is of type text",
        "files: sheet has no effect on a.txt, which is of type text",
        "files: range has no effect on a.txt, which is of type text",
        "files: cache has no effect on a.txt, which is not downloaded",
    ]


# -- files of URLs


@pytest.mark.full
@pytest.mark.proves("FileInput: url")
def test_a_url_is_downloaded_once_and_kept_for_the_next_run(project: Project, models: FakeModels, site: Site) -> None:
    site.pages["/a.html"] = page(b"<!doctype html><h1>Prices</h1>")
    site.pages["/b"] = page(PAGES)
    files = [{"url": f"{site.url}/a.html?signature=abc", "type": "text"}, {"url": f"{site.url}/b", "type": "pdf"}]
    asking(project, models, files)
    finished, record = project.evaluate("--repeat", "2", "--min-pass", "2", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert sorted(site.paths) == ["/a.html?signature=abc", "/b"]
    pages = "First page\n\nSecond page\n\nThird page"
    # What signs a URL is not told.
    told = f"File: {site.url}/a.html\n# Prices\n\nFile: {site.url}/b\n{pages}\n\nIs it?"
    assert [asked(request) for request in models.requests] == [[(told, 0)]] * 2
    assert turn_of(record).context == ("# Prices", pages)
    assert len(os.listdir(project.folder / ".holodeck" / "cache")) == 2
    assert project.run("run", OPENAI_API_KEY=KEY).code == 0
    assert len(site.asked) == 2


@pytest.mark.proves("FileInput: cache", "ExecutionConfig: cache_enabled cache_dir")
@pytest.mark.parametrize(
    ("file", "top", "config", "variables", "folder", "downloads"),
    [
        ({}, {"cache_dir": "kept"}, {"cache_dir": "other"}, {"HOLODECK_CACHE_DIR": "third"}, "kept", 1),
        ({}, {}, {"cache_dir": "other"}, {"HOLODECK_CACHE_DIR": "third"}, "other", 1),
        ({"cache": False}, {"cache_dir": "kept"}, {}, {}, None, 2),
        ({"cache": True}, {"cache_enabled": False}, {"cache_enabled": True}, {}, None, 2),
    ],
)
def test_where_downloads_are_kept(
    project: Project,
    models: FakeModels,
    site: Site,
    file: dict[str, Any],
    top: Any,
    config: Any,
    variables: dict[str, str],
    folder: str | None,
    downloads: int,
) -> None:
    # The folder starts at the suite's, wherever the program is started.
    inner = Project(project.folder / "inner")
    inner.folder.mkdir()
    site.pages["/a"] = in_turn(page(b"one"), page(b"two"))
    inner.write("config.yaml", json.dumps({"execution": config}))
    asking(inner, models, [{"url": f"{site.url}/a", "type": "text", **file}], execution=top)
    for _ in range(2):
        finished = project.run("run", "inner/agent.yaml", OPENAI_API_KEY=KEY, **variables)
        assert finished.code == 0, finished.stdout + finished.stderr
    assert len(site.asked) == downloads
    found = {path.parent.relative_to(inner.folder).as_posix() for path in inner.folder.rglob("?" * 64)}
    assert found == ({folder} if folder else set())


@pytest.mark.proves("ExecutionConfig: download_timeout")
def test_a_download_ends_at_its_deadline(project: Project, models: FakeModels, site: Site) -> None:
    site.pages["/a"] = lambda handler: handler.site.released.wait(600)
    asking(project, models, [{"url": f"{site.url}/a", "type": "text"}], execution={"download_timeout": 0.2})
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    said = "it was not downloaded within 0.2 s; raise execution.download_timeout"
    assert error_of(record) == ("bad_file", f"the file {site.url}/a cannot be used: {said}")


DEFAULTS = (30.0, 30.0, ".holodeck/cache")


@pytest.mark.proves(
    "ExecutionConfig: file_timeout download_timeout cache_enabled cache_dir",
    "HOLODECK_FILE_TIMEOUT",
    "HOLODECK_DOWNLOAD_TIMEOUT",
    "HOLODECK_CACHE_ENABLED",
    "HOLODECK_CACHE_DIR",
)
@pytest.mark.parametrize(
    ("top", "config", "variables", "expected"),
    [
        ({}, {}, {}, DEFAULTS),
        ({"file_timeout": 1}, {"file_timeout": 2}, {"FILE_TIMEOUT": "3"}, (1.0, 30.0, ".holodeck/cache")),
        ({}, {"file_timeout": 2}, {"FILE_TIMEOUT": "3"}, (2.0, 30.0, ".holodeck/cache")),
        ({}, {}, {"FILE_TIMEOUT": "3"}, (3.0, 30.0, ".holodeck/cache")),
        ({"download_timeout": 1}, {"download_timeout": 2}, {"DOWNLOAD_TIMEOUT": "3"}, (30.0, 1.0, ".holodeck/cache")),
        ({}, {"download_timeout": 2}, {"DOWNLOAD_TIMEOUT": "3"}, (30.0, 2.0, ".holodeck/cache")),
        ({}, {}, {"DOWNLOAD_TIMEOUT": "3"}, (30.0, 3.0, ".holodeck/cache")),
        ({"cache_dir": "a"}, {"cache_dir": "b"}, {"CACHE_DIR": "c"}, (30.0, 30.0, "a")),
        ({}, {"cache_dir": "b"}, {"CACHE_DIR": "c"}, (30.0, 30.0, "b")),
        ({}, {}, {"CACHE_DIR": "c"}, (30.0, 30.0, "c")),
        ({"cache_enabled": False}, {"cache_enabled": True}, {"CACHE_ENABLED": "on"}, (30.0, 30.0, None)),
        ({}, {"cache_enabled": False}, {"CACHE_ENABLED": "true"}, (30.0, 30.0, None)),
        ({"cache_enabled": True}, {}, {"CACHE_ENABLED": "0"}, DEFAULTS),
        ({}, {}, {"CACHE_ENABLED": "no"}, (30.0, 30.0, None)),
        ({}, {}, {"CACHE_ENABLED": "what", "FILE_TIMEOUT": "-1", "DOWNLOAD_TIMEOUT": "x", "CACHE_DIR": ""}, DEFAULTS),
    ],
)
def test_how_files_are_read_comes_from_the_highest_place(
    project: Project, top: Any, config: Any, variables: dict[str, str], expected: tuple[float, float, str | None]
) -> None:
    project.write("config.yaml", json.dumps({"execution": config}))
    project.suite([{"input": "?", "ground_truth": "yes"}], execution=top)
    suite = load_suite(project.folder / "agent.yaml", environ={}, home=None, metrics=built_in())
    found = merge_files(suite, {f"HOLODECK_{name}": value for name, value in variables.items()})
    folder = None if expected[2] is None else project.folder / expected[2]
    assert (found.file_timeout_s, found.download_timeout_s, found.cache) == (*expected[:2], folder)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_in_ci_private_networks_are_not_asked(project: Project, models: FakeModels, site: Site, host: str) -> None:
    site.pages["/a"] = page(b"secret")
    asking(project, models, [{"url": f"http://{host}:{site.port}/a", "type": "text"}])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY, CI="true")
    assert finished.code == 3, finished.stdout + finished.stderr
    code, message = error_of(record)
    assert code == "bad_file"
    assert f"nothing is downloaded from {host}: " in message
    assert "is not a public address; in CI, files are downloaded from public addresses only" in message
    assert (site.asked, models.requests) == ([], [])


# -- recordings, journals, secrets


def test_a_replay_needs_what_was_downloaded_and_reports_the_same_bytes(project: Project, site: Site) -> None:
    site.pages["/a"] = page(b"one")
    project.write("a.txt", "First page")
    project.write("i.png", PNG)
    files = [
        {"url": f"{site.url}/a", "type": "text"},
        {"path": "a.txt", "type": "text"},
        {"path": "i.png", "type": "image"},
    ]
    with FakeModels(keys=[KEY]) as models:
        models.answer(lambda _: "yes")
        asking(project, models, files)
        assert project.run("run", "-o", "first", "--record", "tape", OPENAI_API_KEY=KEY).code == 0
    assert project.run("run", "-o", "second", "--replay", "tape").code == 0
    reports = [
        project.run("report", f"{folder}/results.json", "--canonical", "--format", "json").stdout
        for folder in ("first", "second")
    ]
    assert reports[0] == reports[1]
    assert len(site.asked) == 1
    project.write("a.txt", "Other page")
    finished, record = project.evaluate("--replay", "tape")
    assert (finished.code, error_of(record)[0]) == (3, "cassette_miss")
    assert "Other page" in error_of(record)[1]
    shutil.rmtree(project.folder / ".holodeck")
    finished, record = project.evaluate("--replay", "tape")
    assert finished.code == 3
    assert "a replay downloads nothing, and the folder of execution.cache_dir has no copy" in error_of(record)[1]


def test_secrets_in_files_are_not_recorded(project: Project, models: FakeModels) -> None:
    project.write("a.txt", f"the key is {KEY}")
    asking(project, models, [{"path": "a.txt", "type": "text"}])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert turn_of(record).context == ("the key is ***",)
    assert KEY not in (project.out / "results.json").read_text()


def test_a_run_is_not_continued_with_other_files(project: Project) -> None:
    project.write("a.txt", "one")
    project.suite([{"name": "a", "input": "?", "ground_truth": "yes", "files": [{"path": "a.txt", "type": "text"}]}])
    found = []
    for text in ("one", "two", "one"):
        project.write("a.txt", text)
        suite = load_suite(project.folder / "agent.yaml", environ={}, home=None, metrics=built_in())
        target = parse_target("http://127.0.0.1:9/")
        digests = file_digests(suite, target, suite.checkout)
        found.append(run_identity(suite, target, suite.checkout, digests))
    assert found[0] == found[2]
    assert [key for key in found[0] if found[0][key] != found[1][key]] == ["code"]


# -- other targets, and metrics that look at files


def test_nothing_is_read_where_nobody_looks(project: Project) -> None:
    project.write("broken.pdf", "no PDF")
    case = {"name": "a", "input": "?", "ground_truth": "yes", "files": [{"path": "broken.pdf", "type": "pdf"}]}
    project.suite([case])
    project.answers([{"case": "a", "response": "yes"}])
    finished, record = project.evaluate("--target", "recorded:answers.jsonl")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert turn_of(record).context is None


class Looking(Broken):
    """A scorer one of whose metrics looks at files."""

    def uses_context(self, turn: Turn) -> bool:
        return True


def trial_of(folder: Path, files: list[dict[str, Any]], scorer: Broken, *, own_model: bool = False) -> TurnRecord:
    suite = {
        "name": "s",
        "model": {"provider": "openai", "name": "gpt-4o"},
        "instructions": {"inline": "Answer."},
        "evaluations": {"metrics": [{"type": "standard", "metric": "equality"}]},
        "test_cases": [{"name": "a", "input": "1", "ground_truth": "1", "files": files}],
    }
    (folder / "agent.yaml").write_text(json.dumps(suite))
    [case] = load_suite(folder / "agent.yaml", environ={}, home=None, metrics=built_in()).cases

    async def run() -> TurnRecord:
        read = CaseFiles(
            Checkout.of(folder, folder),
            file_timeout_s=60,
            download_timeout_s=60,
            redact=str,
            cache=None,
            online=True,
            environ=os.environ,
        )
        clock = Clock(lambda: datetime.now(UTC), time.monotonic)
        runner = TrialRunner(Echo(), scorer, Deadlines(60, 60), clock, Redactor(()), files=read, own_model=own_model)
        try:
            return (await runner.run(case, 0, contextlib.nullcontext())).turns[0]
        finally:
            await read.close()

    return asyncio.run(run())


@pytest.mark.full
def test_a_metric_that_looks_at_files_gets_their_texts_from_any_target(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(PAGES)
    (tmp_path / "b.png").write_bytes(PNG)
    (tmp_path / "c.txt").write_text("text")
    image = {"path": "b.png", "type": "image"}
    files: list[dict[str, Any]] = [
        {"path": "a.pdf", "type": "pdf", "pages": [2]},
        image,
        {"path": "c.txt", "type": "text"},
    ]
    assert trial_of(tmp_path, files, Looking()).context == ("Second page", "text")
    # An image is no text, and nothing but images is no context.
    assert trial_of(tmp_path, [image], Looking()).context is None
    assert trial_of(tmp_path, [], Looking()).context is None


@pytest.mark.full
def test_where_a_metric_looks_at_a_broken_file_the_agent_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "a.pdf").write_bytes(b"no PDF")
    turn = trial_of(tmp_path, [{"path": "a.pdf", "type": "pdf"}], Looking())
    assert turn.error is not None
    assert (turn.response, turn.error.code) == (None, "bad_file")
    assert turn.error.message == "the file a.pdf cannot be used: the file is not a PDF file"
    assert turn.error.context == {"file": "a.pdf"}


def grounded(project: Project, models: FakeModels, *cases: dict[str, Any]) -> None:
    """Write a suite whose judge holds recorded answers against the text of the cases' files."""
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url}
    metric = {
        "type": "geval",
        "name": "Grounded",
        "criteria": "Is the answer in the context?",
        "evaluation_steps": ["Compare."],
        "evaluation_params": ["actual_output", "context"],
    }
    project.suite([{"input": "?", "ground_truth": "yes", **case} for case in cases], [metric], model=model)
    project.answers([{"case": case["name"], "response": "yes"} for case in cases])
    project.policy(ground_truth="unused")
    models.answer(lambda _: json.dumps({"score": 9, "reason": "it is"}))


@pytest.mark.full
def test_a_judge_that_looks_at_context_gets_the_texts_of_the_files(project: Project, models: FakeModels) -> None:
    project.write("a.pdf", PAGES)
    project.write("b.txt", "Fourth page")
    project.write("c.png", PNG)
    image = {"path": "c.png", "type": "image"}
    files = [{"path": "a.pdf", "type": "pdf", "pages": [2]}, {"path": "b.txt", "type": "text"}, image]
    grounded(project, models, {"name": "with", "files": files}, {"name": "without", "files": [image]})
    finished, record = project.evaluate("--target", "recorded:answers.jsonl", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    (request,) = models.requests
    assert "Second page" in request.text
    assert "Fourth page" in request.text
    assert "First page" not in request.text
    assert turn_of(record).context == ("Second page", "Fourth page")
    # A suite's metric does not apply to a case without text; the record says so.
    (skipped,) = turn_of(record, 1).evaluations
    assert (skipped.status, skipped.explanation) == ("skipped", "does not apply: the turn has no context")
    assert turn_of(record, 1).context is None


@pytest.mark.needs
def test_a_judge_that_looks_at_context_where_no_case_has_files(project: Project, models: FakeModels) -> None:
    grounded(project, models, {"name": "without"})
    finished = project.run("run", "--target", "recorded:answers.jsonl", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert (
        "evaluations.metrics[0]: applies to no turn, because no case gives context; give it, or remove the"
    ) in finished.stderr


def test_an_image_that_is_too_large(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG + bytes(20_000_000))
    (tmp_path / "agent.yaml").write_text("")
    case = {"name": "a", "input": "?", "ground_truth": "1", "files": [{"path": "a.png", "type": "image"}]}
    project = Project(tmp_path)
    project.suite([case])
    [loaded] = load_suite(tmp_path / "agent.yaml", environ={}, home=None, metrics=built_in()).cases

    async def run() -> None:
        read = CaseFiles(
            Checkout.of(tmp_path, tmp_path),
            file_timeout_s=60,
            download_timeout_s=60,
            cache=None,
            online=True,
            environ={},
            redact=str,
        )
        try:
            await read.read(loaded.turns[0])
        finally:
            await read.close()

    with pytest.raises(AgentError, match="the image is larger than 20 MB; give a smaller one"):
        asyncio.run(run())
