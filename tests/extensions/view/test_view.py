"""`view`: pages of runs served on this machine alone, to whoever knows the address, live while a run goes on."""

from __future__ import annotations

import http.client
import json
import os
import re
import signal
import socket
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.commands.project import Process, Project
from tests.reports.pages import Page

SLOW = """
import pathlib, time
def answer(messages):
    number = messages[-1]["content"].split()[-1].rstrip("?")
    while int(number) >= 2 and not pathlib.Path("go").exists():
        time.sleep(0.02)
    return number
"""


@dataclass
class Site:
    """A server of runs: its address, and what it answers."""

    process: Process
    address: str

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    @property
    def start(self) -> str:
        return urlsplit(self.address).path

    def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, http.client.HTTPMessage, str]:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, answer.headers, body

    def runs(self) -> list[tuple[str, str]]:
        """The address and the outcome of each listed run."""
        listed = self.get(self.start)[2]
        found = re.findall(r'<a href="(run/[0-9a-f]+/)">.*?<span class="badge (\w*)">', listed, re.DOTALL)
        return [(self.start + path, outcome) for path, outcome in found]


@contextmanager
def served(project: Project, *arguments: str) -> Iterator[Site]:
    process = project.start("view", "--no-browser", *arguments)
    try:
        assert process.stdout is not None
        yield Site(process, process.stdout.readline().strip())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert (process.returncode, errors) == (
            0,
            "note: anyone on this machine who knows this address can read the runs; press Ctrl-C to stop\n",
        )
    finally:
        process.kill()
        process.communicate(timeout=60)


@pytest.mark.proves("view: RESULTS --port --browser")
def test_the_runs_are_listed_newest_first_and_each_has_its_page(project: Project) -> None:
    project.numbered(3)
    assert project.run("run", "-o", "first", "--history", "past").code == 0
    project.numbered(3, wrong=frozenset({1}))
    assert project.run("run").code == 1
    before = {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")}
    with served(project) as site:
        assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{32}/", site.address)
        # The last one, that with a folder, and the same in the history.
        assert [outcome for _, outcome in site.runs()] == ["failed", "passed", "passed"]
        address = site.runs()[0][0]
        status, headers, text = site.get(address)
        page = Page(text)
        assert (status, page.head["live"], page.index["outcome"][0]) == (200, f"{address}live", "failed")
        assert "connect-src 'self'" in page.policy
        assert headers["Content-Security-Policy"] == f"{page.policy}; frame-ancestors 'none'"
        assert (headers["Cache-Control"], headers["Access-Control-Allow-Origin"]) == ("no-store", None)
        assert json.loads(site.get(f"{address}live")[2])["running"] is False
    assert before == {path: path.stat().st_mtime_ns for path in project.folder.rglob("*")}
    with served(project, "past", "first/results.json") as site:
        assert sorted(Page(site.get(address)[2]).head["title"] for address, _ in site.runs()) == ["tested", "tested"]
        port = urlsplit(site.address).port
        taken = project.run("view", "--no-browser", "--port", str(port))
        assert (taken.code, f"--port {port}: cannot be listened on: " in taken.stderr) == (2, True)
    nothing = project.run("view", "--no-browser", "nowhere")
    assert (nothing.code, nothing.stderr) == (
        2,
        "error: nowhere: holds no results.json; give the output folder of a run\n",
    )


def test_chosen_runs_are_columns_of_one_page(project: Project) -> None:
    for name, wrong in (("first", frozenset({1})), ("second", frozenset[int]())):
        project.numbered(3, wrong=wrong)
        project.run("run", "-o", name)
    with served(project, "first/results.json", "second/results.json") as site:
        status, headers, listed = site.get(site.start)
        keys = re.findall(r'type="checkbox" name="run" value="([0-9a-f]+)" aria-label="Choose [\w/.]+" checked', listed)
        assert (status, len(keys)) == (200, 2)
        assert "form-action 'self'" in headers["Content-Security-Policy"]
        status, headers, text = site.get(f"{site.start}runs/?run={keys[0]}&run={keys[1]}")
        page = Page(text)
        assert (status, [run["name"] for run in page.head["runs"]]) == (200, ["second", "first"])
        assert page.row("case-1")["runs"] == ["passed", "failed"]
        assert headers["Content-Security-Policy"] == f"{page.policy}; frame-ancestors 'none'"
        for query in ("", f"?run={keys[0]}", f"?run={keys[0]}&run={keys[0]}&run=../x"):
            assert site.get(f"{site.start}runs/{query}")[::2] == (409, "choose at least two runs in the list\n"), query


def test_nobody_reads_it_who_does_not_know_the_address(project: Project) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    with served(project, "out") as site:
        run = site.runs()[0][0]
        for path in (
            "/",
            "",
            "/favicon.ico",
            f"/{'a' * 32}/",
            site.start[:-1],
            f"{site.start}run/",
            f"{site.start}../",
        ):
            assert site.get(path or "/")[0] == 404, path
        for path in (f"{site.start}run/0123456789abcdef/", f"{run}..%2f..%2fresults.json", f"{run}results.json"):
            assert site.get(path)[0] == 404, path
        for host in ("evil.example", f"evil.example:{urlsplit(site.address).port}", "127.0.0.1", ""):
            status, headers, body = site.get(run, Host=host)
            assert (status, body) == (421, "This server does not have that name.\n"), host
            assert headers["Access-Control-Allow-Origin"] is None
        assert site.get(run, Host=f"localhost:{urlsplit(site.address).port}")[0] == 200
        assert [site.get(run, method)[0] for method in ("POST", "PUT", "DELETE", "OPTIONS")] == [501] * 4
        assert site.get(run, "HEAD")[2] == ""


@pytest.mark.full
def test_a_run_is_followed_while_it_goes_on(project: Project) -> None:
    project.numbered(4)
    project.write("slow.py", SLOW)
    project.policy(target="python:slow:answer")
    running = project.start("run", "-o", "out")
    try:
        with served(project) as site:
            journal = project.out / "journal.jsonl"
            project.wait_until(lambda: journal.is_file() and journal.read_bytes().count(b'{"case"') == 2)
            ((address, outcome),) = site.runs()
            assert outcome == "pending"
            told = json.loads(site.get(f"{address}live")[2])
            assert (told["done"], told["planned"], told["running"]) == (2, 4, True)
            page = Page(site.get(address)[2])
            assert sorted(page.index["id"]) == ["case-0", "case-1"]
            assert page.head["sentence"] == "no verdict: 2 of 4 cases are done · 2 of 2 passed"
            assert page.details["case-1"]["trials"][0]["turns"][0]["response"] == "1"
            (project.folder / "go").touch()
            running.communicate(timeout=60)
            assert running.returncode == 0
            # The same address is the page of the finished run.
            after = json.loads(site.get(f"{address}live")[2])
            assert (after["running"], after["version"] == told["version"]) == (False, False)
            assert Page(site.get(address)[2]).head["outcome"] == "passed"
    finally:
        running.kill()
        running.communicate(timeout=60)


def test_results_that_cannot_be_used_are_told_of(project: Project) -> None:
    project.numbered(1)
    project.run("run", "-o", "out")
    file = Path(project.out / "results.json")
    file.write_bytes(file.read_bytes().replace(b"what is 0?", b"what is 1?"))
    with served(project, "out") as site:
        status, _, body = site.get(site.runs()[0][0])
        assert (status, body.startswith("out/results.json: is incomplete: its content does not match its digest")) == (
            409,
            True,
        )


def leave(site: Site, sent: str, read: int) -> None:
    """Send bytes, read some of the answer, and break the connection off as a browser does that is closed."""
    parts = urlsplit(site.address)
    with suppress(ConnectionError), socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        # Little room, so that the server is still writing.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(sent.encode())
        while read > 0 and (received := connection.recv(read)):
            read -= len(received)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.full
def test_a_browser_that_leaves_prints_nothing(project: Project) -> None:
    """`served` checks what stands on standard error."""
    project.numbered(300)
    project.run("run", "-o", "out")
    with served(project, "out") as site:
        address, _ = site.runs()[0]
        asked = f"GET {address} HTTP/1.1\r\nHost: {site.host}\r\n\r\n"
        for sent, read in ((asked, 0), (asked, 100), (asked, 100_000), (asked[:20], 0), ("", 0)):
            for _ in range(3):
                leave(site, sent, read)
        assert site.get(address)[0] == 200
        assert site.get(f"{address}live")[0] == 200


def test_files_that_cannot_be_read_meanwhile_are_told_of(project: Project) -> None:
    project.numbered(2)
    project.write("out/journal.jsonl", "")
    with served(project, "out") as site:
        ((address, _),) = site.runs()
        journal = project.out / "journal.jsonl"
        journal.unlink()
        os.mkfifo(journal)
        for path in (address, f"{address}live"):
            status, _, body = site.get(path)
            assert (status, "journal.jsonl" in body, body.count("\n")) == (409, True, 1), body


def test_a_broken_line_of_a_history_is_named_at_the_start(project: Project) -> None:
    project.numbered(1)
    project.run("run", "-o", "out", "--history", "past")
    history = project.folder / "past" / "history.jsonl"
    history.write_bytes(b"garbage\n" + history.read_bytes())
    process = project.start("view", "--no-browser", "past")
    try:
        assert process.stdout is not None
        site = Site(process, process.stdout.readline().strip())
        assert len(site.runs()) == len(site.runs()) == 1
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert errors.count("past/history.jsonl: 1 line is skipped: line 1 is not JSON") == 1
    finally:
        process.kill()
        process.communicate(timeout=60)
