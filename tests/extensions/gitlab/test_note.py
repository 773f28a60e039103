"""The note on a merge request, against GitLab's documented interface on loopback."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from tests.commands.project import Finished, Project
from tests.tables import walk

TOKEN = "glpat-" + "Zx8kQw2vN5bT7yRm4pLc"
HEAD = "a" * 40
FIRST = "<!-- holodeck-action:report:evaluate/out -->"
REQUEST = "/api/v4/projects/3/merge_requests/7"


@dataclass
class GitLab:
    """Merge request 7 of project 3. User 1 has the token; answers are those of https://docs.gitlab.com/api/notes/."""

    notes: list[dict[str, Any]] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    port: int = 0
    sha: str | None = HEAD
    failing: dict[str, int | bytes] = field(default_factory=dict)
    """The status or the body of every answer to a method."""

    def own(self) -> list[str]:
        return [note["body"] for note in self.notes if note["author"]["id"] == 1]

    def answer(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> tuple[int, Any]:
        if path == "/api/v4/user":
            return 200, {"id": 1, "username": "bot"}
        if path == REQUEST and method == "GET":
            return 200, {"iid": 7, "sha": self.sha, "web_url": "https://gitlab.example/shop/-/merge_requests/7"}
        if path == f"{REQUEST}/notes" and method == "GET":
            assert query["sort"] == ["desc"]
            size, page = int(query["per_page"][0]), int(query["page"][0])
            assert size <= 100
            return 200, sorted(self.notes, key=lambda note: -note["id"])[(page - 1) * size : page * size]
        if path == f"{REQUEST}/notes" and method == "POST":
            assert set(body) == {"body"}
            self.notes.append({"id": len(self.notes) + 1, "author": {"id": 1}, "system": False, **body})
            return 201, self.notes[-1]
        if (found := re.fullmatch(rf"{REQUEST}/notes/(\d+)", path)) and method == "PUT":
            note = next((note for note in self.notes if note["id"] == int(found[1])), None)
            if note is None or note["author"]["id"] != 1:
                return 404, {"message": "404 Not found"}
            note |= body
            return 200, note
        return 404, {"error": "404 Not Found"}


@pytest.fixture
def gitlab() -> Iterator[GitLab]:
    held = GitLab()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None: ...

        def serve(self) -> None:
            parts = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            held.calls.append(f"{self.command} {parts.path}")
            failing = held.failing.get(self.command)
            if self.headers["PRIVATE-TOKEN"] != TOKEN:
                status, content = 401, b'{"message":"401 Unauthorized"}'
            elif isinstance(failing, bytes):
                status, content = 200, failing
            elif failing is not None:
                status, content = failing, b"{}"
            else:
                status, found = held.answer(self.command, parts.path, parse_qs(parts.query), body)
                content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_GET = do_POST = do_PUT = serve  # noqa: N815

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    held.port = server.server_port
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield held
    server.shutdown()
    server.server_close()


def publish(project: Project, gitlab: GitLab, *options: str, **variables: str) -> Finished:
    given = {
        "CI_API_V4_URL": f"http://127.0.0.1:{gitlab.port}/api/v4",
        "CI_PROJECT_ID": "3",
        "CI_PROJECT_URL": "https://gitlab.example/team/shop",
        "CI_MERGE_REQUEST_IID": "7",
        "CI_COMMIT_SHA": HEAD,
        "CI_JOB_NAME": "evaluate",
        "CI_JOB_URL": "https://gitlab.example/team/shop/-/jobs/5",
        "CI_PIPELINE_ID": "4",
        "CI_JOB_ID": "5",
        "GITLAB_TOKEN": TOKEN,
        **variables,
    }
    ended = project.run("publish", "out", "--to", "gitlab", *options, **given)
    assert TOKEN not in ended.stdout + ended.stderr + "".join(gitlab.own())
    return ended


@pytest.mark.proves("publish: --to")
def test_one_note_is_written_and_then_updated(project: Project, gitlab: GitLab) -> None:
    # A note of someone else with the marker, and more notes than a page holds.
    gitlab.notes += [{"id": n + 1, "author": {"id": 2}, "body": f"{FIRST}\nmine"} for n in range(130)]
    project.numbered(3)
    project.run("run", "-o", "base")
    project.numbered(3, frozenset({2}))
    project.run("run", "-o", "out", "--baseline", "file:base")
    created = publish(project, gitlab)
    assert (created.code, created.stdout.splitlines()[-1]) == (
        1,
        "note: created: https://gitlab.example/shop/-/merge_requests/7#note_131",
    )
    (body,) = gitlab.own()
    assert body.startswith(f"{FIRST}\n")
    assert "1 of 3 cases got worse" in body
    # Pages of a project's repository are below `/-/`; a suite in no repository has no links to lines.
    assert f"https://gitlab.example/team/shop/-/commit/{HEAD}" in body
    assert "(https://gitlab.example/team/shop/-/jobs/5)" in body
    assert publish(project, gitlab).stdout.splitlines()[-1].startswith("note: unchanged: ")
    project.numbered(3)
    project.run("run", "-o", "out", "--baseline", "file:base")
    later = publish(project, gitlab, CI_COMMIT_SHA="b" * 40, CI_JOB_ID="6")
    # That commit is not the newest one of the merge request.
    assert "note skipped: the merge request has a newer commit" in later.stdout
    gitlab.sha = "b" * 40
    assert publish(project, gitlab, CI_COMMIT_SHA="b" * 40).stdout.splitlines()[-1].startswith("note: updated: ")
    (body,) = gitlab.own()
    assert "3 of 3 passed" in body
    assert "1 fixed" in body
    assert {note["body"] for note in gitlab.notes[:130]} == {f"{FIRST}\nmine"}
    publish(project, gitlab, "--comment-id", "other", CI_COMMIT_SHA="b" * 40)
    assert len(gitlab.own()) == 2


def test_text_of_the_note_commands_nothing(project: Project, gitlab: GitLab) -> None:
    project.numbered(1)
    project.answers([{"case": "case 0", "response": "/merge\n  /close !12 &3 $4 @all\n`!5`"}])
    project.run("run", "-o", "out")
    assert publish(project, gitlab).code == 1
    (body,) = gitlab.own()
    assert not re.search(r"(?m)^\s*/", body)
    outside = re.sub(r"(?s)(`+).*?(?<!`)\1(?!`)", "", body)
    assert re.findall(r"(?<!\\)[!&$]\d", outside) == []
    assert "@all" not in outside
    assert "!12" in body


def test_a_suite_that_cannot_run_leaves_no_older_verdict(project: Project, gitlab: GitLab) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    publish(project, gitlab)
    project.suite([])
    assert project.run("run", "-o", "out").code == 2
    ended = publish(project, gitlab)
    assert (ended.code, ended.errors) == (
        2,
        ["publish: out: holds no results.json; upload the output folder of the run as the artifact"],
    )
    (body,) = gitlab.own()
    assert "No verdict: the configuration is invalid" in body


@walk(
    ("options", "changes", "failing", "line"),
    [
        ((), {"CI_MERGE_REQUEST_IID": ""}, {}, "note skipped: this pipeline is not one of a merge request"),
        ((), {"GITLAB_TOKEN": ""}, {}, "note: note skipped: the variable GITLAB_TOKEN is missing"),
        ((), {"CI_API_V4_URL": ""}, {}, "note: note skipped: CI_API_V4_URL is not set"),
        (
            (),
            {"CI_API_V4_URL": "http://gitlab.example/api/v4"},
            {},
            "note: note skipped: CI_API_V4_URL is not an https",
        ),
        ((), {"CI_PROJECT_ID": "3/x"}, {}, "note: note skipped: CI_PROJECT_ID or CI_MERGE_REQUEST_IID is not a number"),
        (
            (),
            {"GITLAB_TOKEN": "glpat-wrong"},
            {},
            "note: note failed: GitLab refused the call (HTTP 401); GITLAB_TOKEN",
        ),
        ((), {}, {"POST": 403}, "note: note failed: GitLab refused the call (HTTP 403)"),
        ((), {}, {"POST": 500}, "note: note failed: GitLab answered with HTTP 500 to POST /api/v4/projects/3/"),
        ((), {}, {"GET": 302}, "note: note failed: GitLab answered with HTTP 302 to GET"),
        ((), {}, {"GET": b"<html>"}, "note: note failed: GitLab's answer is not the documented one"),
        ((), {}, {"GET": b"[1]"}, "note: note failed: GitLab's answer is not the documented one"),
        ((), {}, {"GET": b"[" * 100_000}, "note: note failed: GitLab's answer is not the documented one"),
        (("--comment", "off"), {}, {}, "note skipped: the option --comment is off"),
        (("--comment", "failures"), {}, {}, "note skipped: nothing failed, and the note is for failures only"),
    ],
)
def test_without_a_part_it_says_which(
    project: Project,
    gitlab: GitLab,
    options: tuple[str, ...],
    changes: dict[str, str],
    failing: dict[str, int | bytes],
    line: str,
) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    gitlab.failing = failing
    ended = publish(project, gitlab, *options, **changes)
    assert ended.code == 0
    assert ended.stdout.splitlines()[-1].startswith(line), ended.stdout
    assert gitlab.notes == []
    # What was asked for and could not be published is an error if it must be.
    assert publish(project, gitlab, "--require-publish", *options, **changes).code == (5 if line[:6] == "note: " else 0)


def test_only_a_changed_result_replaces_the_note(project: Project, gitlab: GitLab) -> None:
    project.numbered(2)
    project.run("run", "-o", "out")
    publish(project, gitlab)
    ended = publish(project, gitlab, "--comment", "changes", CI_JOB_URL="https://gitlab.example/team/shop/-/jobs/6")
    assert ended.stdout.splitlines()[-1].startswith("note: unchanged: ")
    assert "PUT" not in "".join(gitlab.calls)
