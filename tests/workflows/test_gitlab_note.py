"""The note that GitLab's recipe writes, against an interface of GitLab on loopback."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.workflows.files import ROOT

MARKER = "<!-- holodeck-action -->"
TOKEN = "glpat-of-a-bot"
PROGRAMS = Path(sys.executable).parent


@dataclass
class GitLab:
    """The notes of merge request 7; user 1 has the token."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0


@pytest.fixture
def gitlab() -> Iterator[GitLab]:
    """GitLab, with pages of 100 notes."""
    held = GitLab()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

        def answer(self) -> None:
            assert self.headers["PRIVATE-TOKEN"] == TOKEN
            base = "/api/v4/projects/3/merge_requests/7/notes"
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length))["body"] if length else ""
            found: Any = None
            if self.path == "/api/v4/user":
                found = {"id": 1}
            elif self.command == "POST" and self.path == base:
                found = {"id": len(held.notes) + 1, "author": {"id": 1}, "body": body}
                held.notes.append(found)
            elif self.command == "PUT" and (match := re.fullmatch(rf"{base}/(\d+)", self.path)):
                found = held.notes[int(match[1]) - 1]
                assert found["author"]["id"] == 1
                found["body"] = body
            elif match := re.fullmatch(rf"{base}\?per_page=100&page=(\d+)", self.path):
                found = held.notes[(int(match[1]) - 1) * 100 :][:100]
            assert found is not None, self.path
            content = json.dumps(found).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = answer  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield held
    server.shutdown()
    server.server_close()


def after(folder: Path, gitlab: GitLab, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the recipe's last script, as GitLab does after the job."""
    recipe = yaml.safe_load((ROOT / "examples/ci/gitlab-ci.yml").read_text(encoding="utf-8"))
    environ = {
        "PATH": f"{PROGRAMS}:/usr/bin:/bin",
        "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.port}/api/v4",
        "CI_PROJECT_ID": "3",
        **variables,
    }
    script = "\n".join(recipe["evaluate"]["after_script"])
    return subprocess.run(
        ["bash", "-eo", "pipefail", "-c", script],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def report(folder: Path, text: str) -> None:
    (folder / "holodeck-results").mkdir(exist_ok=True)
    (folder / "holodeck-results" / "report.md").write_text(text, encoding="utf-8")


def test_one_note_is_written_and_then_updated(tmp_path: Path, gitlab: GitLab) -> None:
    # A note of someone else with the marker, and more notes than a page holds.
    gitlab.notes += [{"id": n + 1, "author": {"id": 2}, "body": f"{MARKER} mine"} for n in range(130)]
    # A module of the checkout with the name of a library's is not imported.
    (tmp_path / "json.py").write_text("raise SystemExit('imported')\n")
    given = {"NOTE_TOKEN": TOKEN, "CI_MERGE_REQUEST_IID": "7"}
    for text in ("## Failed\n", "## Passed\n"):
        report(tmp_path, text)
        ended = after(tmp_path, gitlab, **given)
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
        assert [note["body"] for note in gitlab.notes if note["author"]["id"] == 1] == [f"{MARKER}\n{text}"]
    assert {note["body"] for note in gitlab.notes[:130]} == {f"{MARKER} mine"}


def test_text_of_the_report_commands_nothing_and_fits(tmp_path: Path, gitlab: GitLab) -> None:
    report(tmp_path, "/merge\n  /close\na /b\n" + "x" * 1_000_000)
    ended = after(tmp_path, gitlab, NOTE_TOKEN=TOKEN, CI_MERGE_REQUEST_IID="7")
    assert ended.returncode == 0, ended.stderr
    [note] = gitlab.notes
    assert note["body"].startswith(f"{MARKER}\n\\/merge\n  \\/close\na /b\nx")
    assert not re.search(r"(?m)^\s*/", note["body"])
    assert len(note["body"]) < 1_000_000
    assert note["body"].endswith("The rest is in report.md, an artifact of the job.")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"NOTE_TOKEN": TOKEN}, "no merge request, so no note"),
        ({"CI_MERGE_REQUEST_IID": "7"}, "no note: the variable NOTE_TOKEN is missing"),
        ({"NOTE_TOKEN": TOKEN, "CI_MERGE_REQUEST_IID": "7"}, "no note: there is no report.md"),
    ],
)
def test_without_a_part_it_says_which(tmp_path: Path, gitlab: GitLab, given: dict[str, str], said: str) -> None:
    ended = after(tmp_path, gitlab, **given)
    assert (ended.returncode, ended.stdout, gitlab.notes) == (0, f"{said}\n", [])
