"""`doctor` says what is there, what is missing and how to get it, and nothing secret."""

from __future__ import annotations

import json
import platform
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from holodeck_action import __version__
from holodeck_action.extensions.doctor.installation import examine_installation
from holodeck_action.seam.extras import way_to_get
from tests.commands.project import Finished, Project
from tests.extensions.tracing.test_traces import closed_port
from tests.github.events import event_environ
from tests.github.fake import FakeGitHub
from tests.github.fake.permissions import Token

SECRET = "sk-planted-4f9d2c7b1e"
KEY_MISSING = "OpenAI needs a key for the model gpt-4o, but none is set: set the environment variable OPENAI_API_KEY"


class Server:
    """A server on loopback that refuses every request, and keeps the headers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str]]] = []
        kept = self.requests

        class Refusing(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                kept.append((self.path, dict(self.headers)))
                self.send_error(401)

            def log_message(self, format: str, *args: object) -> None:
                """Write nothing to standard error."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    with made.server as http:
        threading.Thread(target=http.serve_forever, daemon=True).start()
        yield made
        http.shutdown()


def facts(finished: Finished) -> dict[str, dict[str, list[dict[str, Any]]]]:
    """The findings of `--json`, by what they are about and by subject."""
    found: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for finding in json.loads(finished.stdout)["findings"]:
        found.setdefault(finding["about"], {}).setdefault(finding["subject"], []).append(finding)
    return found


def texts(finished: Finished, about: str, subject: str) -> list[tuple[str, str]]:
    return [(finding["state"], finding["text"]) for finding in facts(finished)[about].get(subject, [])]


def own_model(project: Project, **model: Any) -> None:
    project.suite(
        [{"name": "a", "input": "hi", "ground_truth": "hi"}],
        model={"provider": "openai", "name": "gpt-4o", **model},
    )


@pytest.mark.proves("doctor: --json")
def test_the_installation_is_shown_without_a_suite(project: Project) -> None:
    finished = project.run("doctor")
    assert finished.code == 0
    for words in (
        f"holodeck-action {__version__}",
        platform.python_version(),
        "none, since this is not a job of GitHub Actions",
    ):
        assert words in finished.stdout
    found = facts(project.run("doctor", "--json"))
    assert {*found["Installation"]} == {
        *("version", "python", "platform", "extras", "extensions of other packages", "programs")
    }
    assert found["Job"]["token"][0]["details"] == {"set": False}


@pytest.mark.full
def test_a_missing_extra_is_named_with_the_way_to_get_it(project: Project) -> None:
    project.suite(
        [{"name": "a", "input": "hi", "ground_truth": "hi"}],
        [{"type": "geval", "name": "kind", "criteria": "Is it kind?", "threshold": 0.5}],
    )
    project.answers([{"case": "a", "response": "hi"}])
    project.policy(target="recorded:answers.jsonl")
    # The metadata of an installation that lacks a package of one extra.
    project.write(
        f"site/holodeck_action-{__version__}.dist-info/METADATA",
        f"Metadata-Version: 2.1\nName: holodeck-action\nVersion: {__version__}\n"
        'Requires-Dist: click>=8\nRequires-Dist: nothing-like-it>=4 ; extra == "judges"\n'
        "Requires-Dist: jinja2; extra == 'agents'\n",
    )
    site = str(project.folder / "site")
    finished = project.run_process("doctor", "agent.yaml", "--json", PYTHONPATH=site, OPENAI_API_KEY=SECRET)
    details = facts(finished)["Installation"]["extras"][0]["details"]
    assert details == {"installed": ["agents"], "missing": {"judges": ["nothing-like-it"]}, "unpackaged": []}
    assert texts(finished, "agent.yaml", "extras") == [
        ("problem", "needs the extra: judges (metric kind); run pip install 'holodeck-action[judges]'")
    ]
    assert finished.code == 2


@pytest.mark.parametrize(("python", "lacking"), [((3, 14, 9), []), ((3, 15, 0), ["azure", "files"])])
def test_extras_without_packages_for_this_python_are_named(python: tuple[int, ...], lacking: list[str]) -> None:
    # No such Python need be installed here: the version is given.
    [extras] = [each for each in examine_installation({}, python) if each.subject == "extras"]
    assert extras.details is not None
    assert extras.details["unpackaged"] == lacking
    assert ("for Python 3.15 there are no packages of azure, files" in extras.text) is bool(lacking)
    assert ("with Python 3.14, since" in way_to_get("azure", python)) is bool(lacking)


@pytest.mark.proves("doctor: SUITES")
def test_a_suite_that_cannot_run_here_is_exit_code_2(project: Project) -> None:
    own_model(project)
    without = project.run("doctor", "agent.yaml", "--json", OPENAI_API_KEY="")
    assert without.code == 2
    [(state, text)] = texts(without, "agent.yaml", "suite")
    assert (state, KEY_MISSING in text) == ("problem", True)
    assert facts(without)["agent.yaml"]["variables"][0]["details"] == {"OPENAI_API_KEY": False}
    # Without a suite, nothing needs the key.
    assert project.run("doctor", OPENAI_API_KEY="").code == 0
    present = project.run("doctor", "agent.yaml", "--json", OPENAI_API_KEY=SECRET)
    assert present.code == 0
    assert facts(present)["agent.yaml"]["variables"][0]["details"] == {"OPENAI_API_KEY": True}


def test_an_invalid_suite_is_shown_with_its_line(project: Project) -> None:
    project.write("agent.yaml", "name: x\nmodel: {provider: openai}\n")
    finished = project.run("doctor", "agent.yaml", "--json")
    assert finished.code == 2
    assert any(text.startswith("agent.yaml:2:8: model.name") for _, text in texts(finished, "agent.yaml", "suite"))
    absent = project.run("doctor", "gone.yaml")
    assert (absent.code, "problem  suite: gone.yaml: no such suite" in absent.stdout) == (2, True)


def test_no_value_of_a_variable_is_shown(project: Project) -> None:
    """Neither of a secret in a suite, nor of one in an address, nor of one of the environment alone."""
    own_model(project, api_key="${SHOP_KEY}", endpoint="https://${HOST:-models.example}/v1")
    project.policy(target={"type": "http", "url": "https://agent.example/", "headers": {"authorization": "${AUTH}"}})
    variables = {"SHOP_KEY": SECRET, "AUTH": f"Bearer {SECRET}-2", "GITHUB_TOKEN": f"ghp_{SECRET}", "HOST": SECRET}
    for more in ((), ("--json",)):
        finished = project.run("doctor", "agent.yaml", *more, **variables)
        assert "planted" not in finished.stdout + finished.stderr
        assert finished.code == 0, finished.stdout
    details = facts(finished)["agent.yaml"]["variables"][0]["details"]
    assert details == {"AUTH": True, "HOST": True, "SHOP_KEY": True}


def test_text_of_a_suite_cannot_write_to_the_terminal(project: Project) -> None:
    project.write("agent.yaml", 'name: "x"\nmodel: {provider: "open\\e]0;ai\\nok  fine"}\n')
    finished = project.run("doctor", "agent.yaml")
    assert "\x1b" not in finished.stdout
    assert not any(line.lstrip().startswith("ok  fine") for line in finished.stdout.splitlines())


@pytest.mark.proves("doctor: --online")
def test_servers_are_reached_only_with_online_and_without_a_key(project: Project, server: Server) -> None:
    own_model(project, endpoint=f"{server.url}/v1")
    variables = {"OPENAI_API_KEY": SECRET, "GITHUB_API_URL": f"{server.url}/api"}
    finished = project.run("doctor", "agent.yaml", "--json", **variables)
    assert (server.requests, finished.code) == ([], 0)
    assert texts(finished, "agent.yaml", "model") == [
        ("unknown", "openai/gpt-4o: not called; --online tries to reach it")
    ]
    finished = project.run("doctor", "agent.yaml", "--json", "--online", **variables)
    assert finished.code == 0
    # A refusal is an answer.
    assert texts(finished, "agent.yaml", "model") == [("ok", f"openai/gpt-4o: {server.url} answers with HTTP 401")]
    assert texts(finished, "Job", "GitHub") == [("ok", f"{server.url} answers with HTTP 401")]
    assert [path for path, _ in server.requests] == ["/api", "/v1"]
    assert SECRET not in str(server.requests)


def test_a_model_that_cannot_be_reached_is_a_problem(project: Project) -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    own_model(project, endpoint=url)
    finished = project.run(
        "doctor", "agent.yaml", "--json", "--online", OPENAI_API_KEY=SECRET, GITHUB_API_URL=f"{url}/api"
    )
    said = f"{url} cannot be reached: no connection could be made; check address, proxy and firewall"
    assert texts(finished, "agent.yaml", "model") == [("problem", f"openai/gpt-4o: {said}")]
    assert finished.code == 2
    # Suites run without GitHub.
    assert texts(finished, "Job", "GitHub") == [("note", said)]
    assert project.run("doctor", "--online", GITHUB_API_URL=url).code == 0


def test_an_address_that_is_none_is_a_sentence(project: Project) -> None:
    finished = project.run("doctor", "--online", "--json", GITHUB_API_URL="http://[")
    [(state, text)] = texts(finished, "Job", "GitHub")
    assert (state, "correct the address" in text) == ("note", True)


@pytest.mark.parametrize(
    ("event", "fork", "privileged", "token"),
    [
        ("pull_request", False, False, None),
        ("pull_request.fork", True, False, False),
        ("pull_request_target.fork", True, True, None),
        ("issue_comment", None, True, None),
    ],
)
def test_the_event_tells_what_may_run_and_what_the_token_may(
    project: Project, event: str, fork: bool | None, privileged: bool, token: bool | None
) -> None:
    project.numbered(1)
    environ = {**event_environ(event, project.folder), "GITHUB_ACTIONS": "true", "GITHUB_TOKEN": f"ghs_{SECRET}"}
    finished = project.run("doctor", "agent.yaml", "--json", **environ)
    job = facts(finished)["Job"]
    name = event.partition(".")[0]
    assert job["event"][0]["details"] == {"event": name, "fork": fork, "privileged": privileged}
    assert job["token"][0]["details"] == {"set": True, "writes": token}
    refused = privileged and fork is not False
    assert (finished.code, "nothing was evaluated" in finished.stdout) == ((2, True) if refused else (0, False))


def test_github_tells_the_rights_of_the_user_only_online(project: Project) -> None:
    with FakeGitHub() as hub:
        hub.add_repository("octo/shop")
        hub.add_token(f"ghp_{SECRET}", Token("alice", "classic", {}))
        variables = {
            "GITHUB_API_URL": hub.url,
            "GITHUB_REPOSITORY": "octo/shop",
            "GITHUB_TOKEN": f"ghp_{SECRET}",
        }
        assert "repository" not in facts(project.run("doctor", "--json", **variables))["Job"]
        assert hub.requests == []
        finished = project.run("doctor", "--json", "--online", **variables)
        assert finished.code == 0
        [(state, text)] = texts(finished, "Job", "repository")
        assert (state, text) == (
            "ok",
            "the token can read it; its user has the permissions pull; the token may have fewer",
        )
        wrong = variables | {"GITHUB_TOKEN": "ghp_wrong"}
        [(state, text)] = texts(project.run("doctor", "--json", "--online", **wrong), "Job", "repository")
        assert (state, "give github-token a token that is valid" in text) == ("note", True)
        assert {call.method for call in hub.requests} == {"GET"}
        hub.take_violations()


@pytest.mark.proves("doctor: --env-file")
def test_variables_of_a_file_count(project: Project) -> None:
    own_model(project)
    project.write("variables", f"OPENAI_API_KEY={SECRET}\n")
    assert project.run("doctor", "agent.yaml", OPENAI_API_KEY="").code == 2
    environ = project.environ()
    assert "OPENAI_API_KEY" not in environ
    finished = project.run("doctor", "agent.yaml", "--env-file", "variables")
    assert (finished.code, SECRET in finished.stdout) == (0, False)


@pytest.mark.proves("doctor: --allow-path --allow-plain-http --requirements")
@pytest.mark.parametrize(
    ("target", "flags", "refused"),
    [
        ("recorded:{outside}/answers.jsonl", ("--allow-path", "{outside}"), "the file is outside the checkout"),
        (
            {"type": "http", "url": "http://agent.example/", "headers": {"authorization": "Bearer x"}},
            ("--allow-plain-http",),
            "unencrypted to agent.example",
        ),
    ],
)
def test_a_suite_is_examined_with_the_permissions_of_its_run(
    project: Project, tmp_path_factory: pytest.TempPathFactory, target: Any, flags: tuple[str, ...], refused: str
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "answers.jsonl").write_text('{"case": "a", "response": "hi"}')
    project.suite([{"name": "a", "input": "hi", "ground_truth": "hi"}])
    project.policy(target=target.format(outside=outside) if isinstance(target, str) else target)
    given = [flag.format(outside=outside) for flag in flags]
    found = [project.run("doctor", "agent.yaml", *more) for more in ((), given)]
    assert [(each.code, refused in each.stdout) for each in found] == [(2, True), (0, False)]
    project.write("agent.py", "def answer(conversation):\n    return 'hi'\n")
    project.policy(target="python:agent:answer")
    found = [project.run("doctor", "agent.yaml", *more) for more in ((), ("--requirements", "gone.txt"))]
    assert [(each.code, "problem  suite: --requirements: gone.txt" in each.stdout) for each in found] == [
        (0, False),
        (2, True),
    ]


def test_code_of_the_suite_and_its_files_are_named(project: Project) -> None:
    project.suite([{"name": "a", "input": "hi", "ground_truth": "hi"}])
    project.policy(target="python:agent:answer")
    project.write("agent.py", "def answer(conversation):\n    return 'hi'\n")
    finished = project.run("doctor", "agent.yaml", "--json")
    assert finished.code == 0
    [(_, code)] = texts(finished, "agent.yaml", "code")
    assert code == (
        "Python of the suite runs in workers, under the Python of the program; the variables it reads are unknown"
    )
    assert facts(finished)["agent.yaml"]["files"][0]["details"] == {"files": ["agent.yaml", "holodeck-action.yaml"]}
    project.write("agent.py", "raise RuntimeError('not today')\n")
    broken = project.run("doctor", "agent.yaml")
    assert (broken.code, "not today" in broken.stdout) == (2, True)
    assert "code:" not in broken.stdout


def test_the_templates_of_issues_ask_for_it() -> None:
    template = (Path(__file__).parents[3] / ".github/ISSUE_TEMPLATE/bug_report.yml").read_text(encoding="utf-8")
    assert "holodeck-action doctor" in template
