"""A secret is found in no file that a run writes and in no line that it prints."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.result_files import read_record
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.secret_parts import SHORTEST
from holodeck_action.text.secrets import environment_secrets
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project
from tests.record.records import case, record
from tests.tables import walk

SECRETS = {
    "VARIABLE": "Planted/Variable-7731",
    "HEADER": "Bearer planted header 8842",
    "LISTED": "planted listed 9953",
    "OPENAI_API_KEY": "sk-planted-environment-1064",
}


def traces(project: Project, finished: Finished) -> list[str]:
    """Where a planted secret is still to be seen, in any of the ways it may be written."""
    places = {"stdout": finished.stdout, "stderr": finished.stderr}
    for path in project.out.rglob("*"):
        if path.is_file():
            places[path.name] = path.read_text(errors="replace")
    found = []
    for place, text in places.items():
        for name, secret in SECRETS.items():
            forms = {secret, json.dumps(secret)[1:-1], quote(secret, safe=""), secret.lower().replace("/", "-")}
            found += [f"{name} in {place}" for form in forms if form.casefold() in text.casefold()]
    return found


@pytest.fixture
def leaking_service() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            sent = self.headers["Authorization"]
            call = {"name": "call", "args": {"auth": sent}, "result": sent}
            body = json.dumps({"response": f"you sent {sent}", "tool_invocations": [call]}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *arguments: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_an_http_agent_that_echoes_its_header_leaks_nothing(project: Project, leaking_service: str) -> None:
    project.suite(
        [
            {
                "name": "about ${VARIABLE}",
                "input": "is it ${VARIABLE}?",
                "ground_truth": "${VARIABLE}",
                "expected_tools": [],
            }
        ]
    )
    project.policy(
        target={"type": "http", "url": leaking_service, "headers": {"Authorization": "${HEADER}"}},
        quarantine=[
            {"case": f"about {SECRETS['VARIABLE']}", "reason": "${LISTED}", "owner": "@a", "expires": "2020-01-31"}
        ],
        secrets=["${LISTED}"],
    )
    finished, made = project.evaluate(**SECRETS)
    assert finished.code == 1
    assert MASK in (made.cases[0].trials[0].turns[0].response or "")
    assert MASK in made.cases[0].trials[0].turns[0].input
    assert made.cases[0].id == f"case-{made.cases[0].content_hash[:12]}"
    assert traces(project, finished) == []


@pytest.mark.full
def test_graders_and_agents_that_print_their_environment_leak_nothing(project: Project) -> None:
    project.suite(
        [{"name": "one", "input": "x"}, {"name": "two", "input": "x"}],
        [{"type": "code", "grader": "grading:leak"}, {"type": "code", "grader": "grading:broken"}],
    )
    project.policy(target="python:agent:answer", secrets=["${LISTED}", "${HEADER}", "${VARIABLE}"])
    project.write(
        "grading.py",
        "import os\n"
        "from holodeck.lib.test_runner.code_grader import GraderResult\n"
        "def leak(ctx):\n"
        "    print(dict(os.environ))\n"
        "    text = ' '.join(os.environ[n] for n in ('VARIABLE', 'HEADER', 'LISTED', 'OPENAI_API_KEY'))\n"
        "    return GraderResult(score=0.0, reason=text, details={text: [text]})\n"
        "def broken(ctx):\n"
        "    raise ValueError(repr(dict(os.environ)))\n",
    )
    project.write("agent.py", "import os\ndef answer(messages):\n    return repr(dict(os.environ))\n")
    finished, made = project.evaluate(**SECRETS)
    assert finished.code == 1
    evaluations = made.cases[0].trials[0].turns[0].evaluations
    assert MASK in (evaluations[0].explanation or "")
    assert evaluations[1].error is not None
    assert traces(project, finished) == []


@pytest.mark.full
def test_an_interrupted_run_with_secret_case_names_is_resumed(project: Project) -> None:
    names = [f"{n} of ${{VARIABLE}}" for n in range(6)]
    project.suite([{"name": name, "input": f"what is {n}?", "ground_truth": str(n)} for n, name in enumerate(names)])
    project.policy(target="python:agent:answer")
    project.write(
        "agent.py",
        "import os, time\n"
        "def answer(messages):\n"
        "    text = messages[-1]['content'].removeprefix('what is ').removesuffix('?')\n"
        "    time.sleep(0 if int(text) < 3 or os.path.exists('go') else 600)\n"
        "    return text\n",
    )
    stopped, partial = ever_longer(
        lambda seconds: project.evaluate("--run-timeout", f"{seconds}", "--concurrency", "1", **SECRETS),
        lambda ran: sum(len(item.trials) for item in ran[1].cases) == 3,
    )
    assert stopped.code == 4
    assert sum(len(item.trials) for item in partial.cases) == 3
    assert traces(project, stopped) == []
    project.write("go", "")
    resumed, whole = project.evaluate("--resume", **SECRETS)
    assert resumed.code == 0
    assert whole.run.resumed_trials == 3
    project.out = project.folder / "fresh"
    project.run("run", "-o", "fresh", **SECRETS)
    assert canonical_json(read_record(project.folder / "fresh" / "results.json")) == canonical_json(whole)


TEXTS = st.text(min_size=SHORTEST, max_size=12).filter(lambda text: len(text.strip()) >= SHORTEST)
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(TEXTS, st.text(max_size=5), st.text(max_size=5))
def test_no_written_form_of_a_secret_survives(secret: str, before: str, after: str) -> None:
    redactor = Redactor([secret])
    bare = secret.strip()
    for form in (bare, json.dumps(bare)[1:-1], repr(bare)[1:-1]):
        assert form not in redactor.text(before + form + after).replace(MASK, "\0")
    assert json.dumps(bare)[1:-1] not in redactor.text(json.dumps({"result": bare})).replace(MASK, "\0")


@given(
    st.binary(max_size=9),
    TEXTS.filter(lambda text: len(text.strip().encode("utf-8", "ignore")) >= 8),
    st.binary(max_size=9),
)
def test_a_secret_in_base64_does_not_survive_inside_of_something_longer(
    before: bytes, secret: str, after: bytes
) -> None:
    bare = secret.strip()
    redactor = Redactor([bare])
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = redactor.text(f"it is {encode(before + bare.encode() + after).decode()}.")
        assert MASK in text
        # At its ends are characters that it shares with its neighbours: the rest is gone.
        left, _, right = text.removeprefix("it is ").removesuffix(".").partition(MASK)
        assert len(left) <= len(before) * 8 // 6 + 2
        assert len(right.rstrip("=")) <= len(after) * 8 // 6 + 3


@given(JSON_VALUES)
def test_values_without_a_secret_are_the_same_objects(value: Any) -> None:
    assert Redactor(["never to be found here"]).value(value) is value


def test_a_record_without_the_secret_is_returned_itself() -> None:
    made = record(case("P"), case("F"))
    assert Redactor(["never to be found here"]).value(made) is made
    assert Redactor(["question"]).value(made).cases[0].trials[0].turns[0].input == MASK


def test_short_values_are_left_alone_and_long_ones_win() -> None:
    assert Redactor(["abc", "10"]).text("abc 10 abcd") == "abc 10 abcd"
    assert Redactor(["abcd", "abcdefgh"]).text("abcdefgh abcd") == f"{MASK} {MASK}"


SECRET_NAMES = """
    A_TOKEN DB_PASSWORD APIKEY DEPLOY_KEY_2 KEY3 GH_PAT GITHUB-PAT MYSQL_PWD SMTP_PASS SSH_PASSPHRASE SENTRY_DSN DSN
    AZURE_CONNECTION_STRING ConnectionStr STORAGE_SAS ID_JWT SLACK_WEBHOOK_URL SESSION_COOKIE CLIENT_SECRET_1
    registry_auth API_KEYS OPENAI_API_KEY_EU SECRET_PROD PRIVATE_KEY_BASE64 AWS_ACCESS_KEY_ID AWS_SECRET_ACCESS_KEY
    CREDS BEARER GITHUB_TOKEN ANTHROPIC_API_KEY PGPASSWORD accessToken apiKey.prod X-Api-Key NPM_TOKEN_RO
    CREDENTIALS_JSON TLS_PEM AUTHORIZATION BASIC_AUTH DOCKER_AUTH_CONFIG SIGNING_SECRETS VAULT_SECRET_ID
    STRIPE_WEBHOOK_SECRET HASH_SALT MASTERPASSWORD DATABASE_PASSWORDS
"""
OTHER_NAMES = """
    PATH PWD OLDPWD COMPASS KEYBOARD SPAT LDSN SSH_AUTH_SOCK PASSES MAX_TOKENS PRIMARY_KEY_COLUMN AUTH_URL TOKEN_URL
    OPENAI_MAX_OUTPUT_TOKENS TOKEN_LIMIT KEY_NAME SECRET_NAME PASSWORD_FILE KEY_FILE PUBLIC_KEY SSH_PUBLIC_KEY SORT_KEY
    CACHE_KEY FOREIGN_KEY_TABLE AUTH_TYPE AUTH_METHOD AUTH_ENABLED TOKEN_TTL COOKIE_DOMAIN PASS_RATE MIN_PASS JWT_ISSUER
    API_KEY_HEADER KEYCHAIN MONKEY TOKENIZER AUTHOR SECRETARY PASSENGER PASSPORT_REGION
"""


def test_names_of_variables_tell_of_secrets_by_their_words() -> None:
    secret, other = SECRET_NAMES.split(), OTHER_NAMES.split()
    assert (len(secret), len(other)) == (46, 40)
    told = environment_secrets({name: f"value of {name}" for name in (*secret, *other)})
    assert told == {f"value of {name}" for name in secret}


@walk(
    "value",
    [
        *(
            "short",
            "12345678",
            "-1234.5678",
            "1e10000000",
            "disabled",
            "TRUE    ",
            "/usr/bin",
            "/usr/bin:/bin",
            "/etc/hosts",
        ),
        *("localhost:8080", "db.example.com:5432", "10.20.30.40", "[::1]:4318", "https://login.example.com/v1/token"),
        *("https://example.com/?scope=read", "anonymous", "Production", "REQUIRED"),
    ],
)
def test_values_that_nobody_has_to_hide_are_no_secrets(value: str) -> None:
    assert environment_secrets({"SOME_TOKEN": value}) == set()


@walk(
    "value",
    [
        *(
            "s3cret-word",
            "two words",
            "correcthorsebatterystaple",
            "/no/such/path/x",
            "abc123.def456.ghi789",
            "12345678a",
        ),
        *("https://user:pw@host/", "https://hooks.example.com/services/7fK2mQ9xZ4vB8nL3pR6t", "not a number 1"),
    ],
)
def test_other_values_are(value: str) -> None:
    assert environment_secrets({"SOME_TOKEN": value}) == {value}


@walk(
    ("value", "secrets"),
    [
        ("postgresql://shop:s3cret-word@db.example/shop", {"shop:s3cret-word", "s3cret-word"}),
        ("https://me:p%40ssw0rd@proxy:3128", {"me:p%40ssw0rd", "me:p@ssw0rd", "p%40ssw0rd", "p@ssw0rd"}),
        ("redis://:only-a-password@cache", {":only-a-password", "only-a-password"}),
        ("https://ghp_0123456789abcdefABCD@github.com/x", {"ghp_0123456789abcdefABCD"}),
        ("AccountName=shop;AccountKey=c2VjcmV0LXdvcmQ=;x=y", {"c2VjcmV0LXdvcmQ="}),
        ("Server=db;Uid=shop;Pwd=s3cret-word", {"s3cret-word"}),
        ("https://api.example/?user=me&token=s3cret-word&x=1", {"s3cret-word"}),
        ("postgres://postgres:postgres@localhost/test", set()),
        ("ssh://git@github.com/shop.git", set()),
        ("see https://docs.example/a@b and mail me@x.example", set()),
    ],
)
def test_passwords_in_addresses_are_secrets_whatever_their_variable_is_called(value: str, secrets: set[str]) -> None:
    assert environment_secrets({"ADDRESS": value}) == secrets
    assert all(secret not in Redactor([value]).text(f"say {secret}!") for secret in secrets)


@walk(
    ("secret", "part"),
    [
        ("Bearer abcdefgh1234", "abcdefgh1234"),
        ("token abcdefgh1234", "abcdefgh1234"),
        ("Basic c2hvcDpzM2NyZXQtd29yZA==", "s3cret-word"),
        ("first line 1\nsecond line 2", "second line 2"),
    ],
)
def test_a_part_that_is_a_secret_alone_is_hidden_alone(secret: str, part: str) -> None:
    assert Redactor([secret]).text(f"it is {part}.") == f"it is {MASK}."


def test_multi_line_secrets_are_hidden_by_line(tmp_path: Path) -> None:
    key = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"
    shown = Redactor([key]).text("first MIIEvQIBADANBg then kqhkiG9w0BAQEF")
    assert shown == f"first {MASK} then {MASK}"
