"""What the files of a suite may name: files of the checkout, and nothing else of the machine."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.suite import checkout
from holodeck_action.suite.checkout import MOST_TEXT, Checkout
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.text.foreign import RefusedFileError
from tests.suite.folders import CASE, EQUALITY, HEAD, complaints, write

OUTSIDE = "is outside the checkout (allowed: inside the checkout, or below a folder of --allow-path"
MODEL = "name: support\nmodel: {provider: ollama, name: llama}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A checkout with a suite's folder in it, beside a file that is none of its business."""
    (tmp_path / "secret.txt").write_text("sesame")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / ".git" / "config").write_text("AUTHORIZATION: basic c2VzYW1l")
    (tmp_path / "repo" / "suite").mkdir()
    return tmp_path / "repo" / "suite"


def leak(folder: Path, name: str, place: str) -> Any:
    """Make a file of the suite a link to a place."""
    (folder / name).symlink_to(place)


NAMED: dict[str, tuple[str, str]] = {
    "a file of a case": (
        HEAD + EQUALITY + "test_cases:\n- input: hi\n  ground_truth: a\n  files: [{type: text, path: PATH}]\n",
        "test_cases[0].files[0].path: the file",
    ),
    "the file of cases": (HEAD + EQUALITY + "test_cases_file: PATH\n", "test_cases_file: PATH"),
    "instructions": (MODEL + "instructions: {file: PATH}\n" + EQUALITY + CASE, "instructions.file: the file"),
    "a schema": (HEAD + EQUALITY + "response_format: PATH\n" + CASE, "response_format: the file"),
    "a prompt": (
        HEAD
        + EQUALITY
        + CASE
        + "tools:\n- {type: prompt, name: t, description: d, parameters: {a: {type: string}}, file: PATH}\n",
        "tools[0].file: the file",
    ),
    "a function": (
        HEAD + EQUALITY + CASE + "tools:\n- {type: function, name: t, description: d, function: f, file: PATH}\n",
        "tools[0].file: the file",
    ),
    "a source": (
        HEAD + EQUALITY + CASE + "tools:\n- {type: vectorstore, name: t, description: d, source: PATH}\n",
        "tools[0].source: the source",
    ),
    "variables of a server": (
        HEAD + EQUALITY + CASE + "tools:\n- {type: mcp, name: t, description: d, command: npx, env_file: PATH}\n",
        "tools[0].env_file: the file",
    ),
    "the folder of downloads": (
        HEAD + EQUALITY + CASE + "execution: {cache_dir: PATH}\n",
        "execution.cache_dir: the folder",
    ),
}
POLICIES = {
    "a transcript": ("target: 'recorded:PATH'\n", "target: the file"),
    "a cache": ("cache: {mode: cache, dir: PATH}\n", "cache.dir: the folder"),
}


def told(folder: Path, path: str, what: str) -> list[str]:
    if what in POLICIES:
        files = {"holodeck-action.yaml": POLICIES[what][0].replace("PATH", path)}
        return complaints(folder, HEAD + EQUALITY + CASE, files)
    return complaints(folder, NAMED[what][0].replace("PATH", path))


@pytest.mark.parametrize("what", [*NAMED, *POLICIES])
@pytest.mark.parametrize("path", ["/proc/self/environ", "../../secret.txt", "link"])
def test_whatever_names_a_file_outside_is_refused_at_its_line(folder: Path, what: str, path: str) -> None:
    leak(folder, "link", "../../secret.txt")
    text, field = {**NAMED, **POLICIES}[what]
    before = text[: text.index("PATH")].replace("'recorded:", "").split("\n")
    place = f"{'holodeck-action' if what in POLICIES else 'agent'}.yaml:{len(before)}:{len(before[-1]) + 1}"
    lines = told(folder, path, what)
    expected = f"{place}: {field.replace('PATH', path)} {OUTSIDE}"
    assert [line for line in lines if line.startswith(expected)], lines
    assert "sesame" not in "\n".join(lines)


@pytest.mark.parametrize("what", [*NAMED, *POLICIES])
def test_the_data_of_git_is_no_file_of_the_repository(folder: Path, what: str) -> None:
    leak(folder, "link", "../.git/config")
    for path in ("../.git/config", "link"):
        assert "belongs to Git's data, which may hold credentials" in "\n".join(told(folder, path, what))


def test_files_of_the_repository_are_read_through_links_inside_it(folder: Path) -> None:
    (folder.parent / "shared").mkdir()
    (folder.parent / "shared" / "prompt.md").write_text("Answer.")
    leak(folder, "prompt.md", "../shared/prompt.md")
    for path in ("prompt.md", "../shared/prompt.md"):
        assert told(folder, path, "instructions") == [], path


@pytest.mark.parametrize("name", ["agent.yaml", "holodeck-action.yaml", "config.yml"])
def test_the_files_of_a_suite_themselves_may_not_lead_out(folder: Path, name: str) -> None:
    write(folder, {"agent.yaml": HEAD + EQUALITY + CASE})
    (folder / name).unlink(missing_ok=True)
    leak(folder, name, "../../secret.txt")
    with pytest.raises(SuiteError, match="is outside the checkout"):
        load_suite(folder / "agent.yaml", environ={}, home=None, metrics=built_in())


def test_the_workflow_can_allow_more(folder: Path, tmp_path: Path) -> None:
    path = write(folder, {"agent.yaml": MODEL + "instructions: {file: ../../secret.txt}\n" + EQUALITY + CASE})
    more = Checkout.of(folder, tmp_path, [tmp_path])
    suite = load_suite(path, environ={}, home=None, metrics=built_in(), checkout=more)
    assert suite.checkout.read("../../secret.txt").text() == "sesame"
    with pytest.raises(RefusedFileError):
        more.read("/etc/hostname")
    with pytest.raises(RefusedFileError):
        Checkout.of(folder, tmp_path, [Path("/")]).read("/proc/self/environ")


def test_where_the_checkout_ends(folder: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    assert Checkout.of(folder, tmp_path).roots == (root,)
    assert Checkout.of(folder, Path("/")).roots == (root,)
    (root / ".git" / "config").unlink()
    (root / ".git").rmdir()
    # Without a repository, the working folder counts where the suite is in it, but never all of the machine.
    assert Checkout.of(folder, tmp_path).roots == (tmp_path,)
    for elsewhere in (Path("/"), tmp_path / "other"):
        assert Checkout.of(folder, elsewhere).roots == (folder,)
    # A worktree and a submodule have a file there.
    (folder / ".git").write_text("gitdir: elsewhere")
    assert Checkout.of(folder, tmp_path).roots == (folder,)


def pipe(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        before = os.getcwd()
        os.chdir(path.parent)
        try:
            server.bind(path.name)
        finally:
            os.chdir(before)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(10_000_000_000)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (pipe, "is not a regular file (a pipe, a device or a socket)"),
        (listening, "cannot be read: No such device or address"),
        (sparse, "has 10,000,000,000 bytes; at most"),
        (Path.mkdir, "cannot be read: Is a directory"),
    ],
)
@pytest.mark.parametrize("what", ["a file of a case", "instructions"])
def test_only_regular_files_of_a_size_are_read_and_none_is_waited_for(
    folder: Path, what: str, make: Callable[[Path], None], message: str
) -> None:
    make(folder / "odd")
    assert message in "\n".join(told(folder, "odd", what))


def test_a_path_that_is_none(folder: Path) -> None:
    assert "is not a path of a file" in "\n".join(told(folder, '"a\\0b"', "instructions"))
    leak(folder, "loop", "loop")
    assert "cannot be read: Too many levels of symbolic links" in "\n".join(told(folder, "loop", "instructions"))


@pytest.mark.full
def test_a_file_that_changes_under_its_check_is_never_read_outside(folder: Path, tmp_path: Path) -> None:
    """A folder that is exchanged for a link after it was looked at is not followed."""
    (folder / "in").mkdir()
    (folder / "in" / "secret.txt").write_text("harmless")
    files = Checkout.of(folder, folder)
    done = threading.Event()

    def exchange() -> None:
        while not done.is_set():
            os.rename(folder / "in", folder / "kept")
            os.symlink(tmp_path, folder / "in")
            os.unlink(folder / "in")
            os.rename(folder / "kept", folder / "in")

    thread = threading.Thread(target=exchange)
    thread.start()
    found = set()
    try:
        for _ in range(2000):
            try:
                found.add(files.read("in/secret.txt").text())
            except OSError:
                continue
    finally:
        done.set()
        thread.join()
    assert found <= {"harmless"}


def test_what_is_read_is_bounded_although_the_file_grows(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "a.txt").write_bytes(b"x" * 100)
    assert Checkout.of(folder, folder).read("a.txt", 100).text() == "x" * 100
    with pytest.raises(RefusedFileError, match="has 100 bytes; at most 99 are read"):
        Checkout.of(folder, folder).read("a.txt", 99)
    assert checkout.MOST_TEXT == MOST_TEXT
