"""Secrets in every place that takes one, and a model, tools and servers that repeat them: none of them gets out."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pytest

from tests.commands.project import Finished, Project
from tests.extensions.mcp.mcp_servers.starting import RUDE, SHOP, mcp, path_with_npx, served
from tests.extensions.tracing.collector import Collector, http_collector
from tests.llm.models import Answer, FakeModels, Fault, Reply, Request, ToolCall
from tests.redaction.planting import ENCODINGS, leaked, pieces_of
from tests.reports.pages import told

pytestmark = pytest.mark.models(keys=None)
# Signs that JSON, Python, URLs and HTML write differently, and both that base64 has beside letters and digits.
VARIABLES = {
    "MODEL_CREDENTIAL": "sk-7Lq2zV/mZ8dxK+4711Rt?>~",
    "SHOP_LOGIN": 'planted"shop\\1812<&>',
    "SERVER_LOGIN": "Basic cGxhbnRlZDpzZXJ2ZXItMTkxNA==",
    "DATABASE_ADDRESS": "postgresql://shop:planted-database-2001@db.example/shop",
    "COLLECTOR_LOGIN": "planted collector/2112",
    "LISTED_WORD": "planted'listed 2223",
    "ASKED_WORD": "planted=asked=2334",
    "WAREHOUSE_SECRET": "planted\nwarehouse line 2445",
    "UNUSED_API_KEY": "planted-unused-2556",
}
HARDEST = VARIABLES["MODEL_CREDENTIAL"]
"""Also written in every way that `tests/redaction/planting.py` knows, and cut."""
LITERALS = {"file": "planted-env-file-2667", "field": "planted-env-field-2778", "header": "planted-header-2889"}
SECRETS = {**VARIABLES, **LITERALS}
SOURCES = ("agent.yaml", "shop.env", "home")
"""Where the test itself has written some of them."""

TOOLS = '''
import base64
import os
import sys
from urllib.parse import quote

SECRET = os.environ["WAREHOUSE_SECRET"]
print("loading with", SECRET)


def count_boxes(place: str) -> dict[str, str]:
    """Count."""
    print("counting with", SECRET, repr(SECRET), file=sys.stderr)
    return {"place": place, "secret": SECRET, "base64": base64.b64encode(SECRET.encode()).decode(), SECRET: "key"}


def fails(place: str) -> str:
    """Fail."""
    raise ValueError(f"cannot log in as {quote(SECRET)} at {place}")
'''
TEMPLATE = "# Ours\n{% for case in report.attention %}\n{{ case }}\n{% endfor %}\n"


def forms(secret: str) -> set[str]:
    """The ways in which a secret may be written, so that who reads them knows it."""
    data = secret.encode()
    found = {secret, json.dumps(secret)[1:-1], repr(secret)[1:-1]}
    found |= {quote(secret), quote(secret, safe=""), quote_plus(secret)}
    for before in (b"", b":", b"u:", b"Bearer "):
        # Of something longer, what belongs to the secret alone.
        start, stop = -(-len(before) * 8 // 6), (len(before) + len(data)) * 8 // 6
        found |= {encode(before + data).decode()[start:stop] for encode in (base64.b64encode, base64.urlsafe_b64encode)}
    return found


def repeated() -> str:
    """Everything that a model could say of the secrets."""
    said = [form for secret in SECRETS.values() for form in sorted(forms(secret))]
    said += [base64.b64encode(f"user:{secret}".encode()).decode() for secret in SECRETS.values()]
    # A lone surrogate has no bytes that a server could send.
    said += [write(HARDEST) for name, write in ENCODINGS.items() if name != "U+D800"]
    said += [f"{HARDEST[:20]}…", f"…{HARDEST[3:]}"]
    return "\n".join([*said, *(secret.upper() for secret in SECRETS.values())])


def found_in(places: dict[str, str]) -> list[str]:
    pieces = pieces_of(HARDEST)
    left = [f"pieces in {place}: {found}" for place, text in places.items() if (found := leaked(text, pieces))]
    return left + [
        f"{name} in {place}: {form}"
        for place, text in places.items()
        for name, secret in SECRETS.items()
        for form in forms(secret)
        if form.casefold() in text.casefold()
    ]


def places(project: Project, *finished: Finished, **more: str) -> dict[str, str]:
    """All that was written or printed, apart from what the test wrote."""
    texts = {f"stdout {n}": told(each.stdout) for n, each in enumerate(finished)}
    texts |= {f"stderr {n}": each.stderr for n, each in enumerate(finished)}
    for path in project.folder.rglob("*"):
        name = str(path.relative_to(project.folder))
        texts[f"the name {name}"] = name
        if path.is_file() and name not in SOURCES:
            texts[name] = told(path.read_bytes().decode("utf-8", "replace"))
    return {**texts, **more}


def joined(tape: Path) -> str:
    """The texts of recorded streams, put together."""
    texts = []
    for call in (tape / "cassette.jsonl").read_bytes().splitlines():
        for line in json.loads(call)["response"].get("text", "").splitlines():
            if line.startswith("data:") and isinstance(event := json.loads(line[5:]), dict):
                delta = event.get("delta") or {}
                texts.append(delta.get("text", "") + delta.get("partial_json", "") + delta.get("thinking", ""))
    return "".join(texts)


@pytest.fixture
def collector() -> Iterator[Collector]:
    with http_collector() as collector:
        yield collector


def rule(request: Request) -> Reply:
    """Call all tools with a secret, then repeat everything; or refuse, and repeat the header that was sent."""
    if request.operation == "embeddings":
        return Answer()
    sent = request.headers.get("authorization", "")
    if "refused" in request.text:
        message = f"you sent {sent}, that is {base64.b64encode(sent.encode()).decode()}"
        return Fault(status=400, body={"error": {"message": message, "type": "invalid_request_error", "code": sent}})
    if "strange" in request.text:
        return Fault(status=403, body=f"<html>{sent} {quote(sent)}</html>", headers={"content-type": "text/html"})
    if request.tools and not request.results:
        said = SECRETS["SHOP_LOGIN"]
        calls = {
            "count_boxes": {"place": said},
            "fails": {"place": quote(said)},
            "variable": {"of": "SHOP_TOKEN"},
            "faq_search": {"query": said},
            "act": {"said": repeated()},
        }
        known = [(name, calls.get(name.rpartition("__")[2])) for name in request.tools]
        return Answer(tools=tuple(ToolCall(name, given) for name, given in known if given is not None))
    return Answer(repeated())


def function(name: str) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "A tool.", "file": "tools.py", "function": name}


def planted(project: Project, models: FakeModels, collector: Collector, shop: str, **model: Any) -> dict[str, str]:
    """Write a suite with a secret in each place; return the environment."""
    project.write("tools.py", TOOLS)
    project.write("own.md.j2", TEMPLATE)
    project.write("shop.env", f"SHOP_FILE_TOKEN={LITERALS['file']}\n")
    project.write("faq.json", json.dumps([{"id": "1", "question": "How?", "answer": "So."}]))
    # The suite says it in the case's own text, too.
    cases: list[dict[str, Any]] = [
        {"name": "tools", "input": "Use ${ASKED_WORD}", "ground_truth": "all of ${LISTED_WORD}"},
        {"name": "refused", "input": "to be refused", "ground_truth": "x"},
        {"name": "strange", "input": "a strange server", "ground_truth": "x"},
        {"name": "${ASKED_WORD} in a name", "input": "Say it", "ground_truth": "x", "expected_tools": ["absent"]},
    ]
    tools = [
        function("count_boxes"),
        function("fails"),
        mcp("shop", SHOP, env={"SHOP_TOKEN": "${SHOP_LOGIN}", "FIELD_TOKEN": LITERALS["field"]}, env_file="shop.env"),
        mcp("rude", RUDE),
        mcp(
            "remote",
            url=shop,
            transport="http",
            headers={"Authorization": "${SERVER_LOGIN}", "X-Api-Key": LITERALS["header"], "X-Shop": "open"},
        ),
        {
            "type": "vectorstore",
            "name": "faq",
            "description": "Answers.",
            "source": "faq.json",
            "vector_field": ["question", "answer"],
            "id_field": "id",
            "database": {"provider": "qdrant", "connection_string": "${DATABASE_ADDRESS}"},
            "embedding_model": "text-embedding-3-small",
        },
    ]
    otlp = {"endpoint": collector.url, "protocol": "http", "headers": {"x-collector-login": "${COLLECTOR_LOGIN}"}}
    project.suite(
        cases,
        model={"name": "chosen", "api_key": "${MODEL_CREDENTIAL}", **model},
        tools=tools,
        observability={"enabled": True, "traces": {"capture_content": True}, "exporters": {"otlp": otlp}},
    )
    project.policy(secrets=["${LISTED_WORD}"])
    return {**VARIABLES, "PATH": path_with_npx(project.folder)}


@pytest.mark.full
def test_no_secret_gets_out(project: Project, models: FakeModels, collector: Collector) -> None:
    with served(project.folder, "streamable-http") as shop:
        environ = planted(project, models, collector, shop.url, provider="openai", endpoint=models.openai_url)
        models.answer(rule)
        asked = ("--template", "own.md.j2", "-o")
        first = project.run("run", *asked, "out", "--record", "tape", "--cache", "kept", **environ)
        replayed = project.run("run", *asked, "again", "--replay", "tape", **environ)
    assert first.code == 1, first.stdout + first.stderr
    shown = [
        project.run("report", "out/results.json", "--format", name, **environ)
        for name in ("markdown", "html", "junit", "json", "csv", "console")
    ]
    # The places held what they should: else nothing here says anything.
    assert {request.key for request in models.requests} == {SECRETS["MODEL_CREDENTIAL"]}
    assert collector.requests[0]["x-collector-login"] == SECRETS["COLLECTOR_LOGIN"]
    told = " ".join(result for request in models.requests for result in request.results)
    for name in ("SHOP_LOGIN", "WAREHOUSE_SECRET"):
        assert any(form in told for form in forms(SECRETS[name])), name
    called = {message.text for request in models.requests for message in request.messages if message.role == "tool"}
    assert len(called) >= 6
    assert (project.out / "report.md").read_text().startswith("# Ours")
    spans = b"\n".join(collector.bodies).decode("utf-8", "replace")
    assert "***" in spans
    record = json.loads((project.out / "results.json").read_bytes())
    errors = [case["trials"][0]["turns"][0]["error"] for case in record["cases"]]
    assert [error and error["code"] for error in errors] == [None, "bad_request", "authentication", None]
    assert len((project.folder / "tape" / "cassette.jsonl").read_bytes().splitlines()) >= 3
    assert found_in(places(project, first, replayed, *shown, spans=spans)) == []


@pytest.mark.full
def test_no_secret_gets_out_of_a_recorded_stream(project: Project, models: FakeModels) -> None:
    cases = [{"name": "one", "input": "Say it", "ground_truth": "x"}]
    model = {"provider": "anthropic", "name": "claude-opus-4-6", "endpoint": models.anthropic_url, "max_tokens": None}
    project.suite(cases, model={**model, "api_key": "${MODEL_CREDENTIAL}"})
    project.policy(secrets=[f"${{{name}}}" for name in VARIABLES])
    models.answer(lambda _: Answer(repeated(), thinking=repeated()))
    first, record = project.evaluate("--record", "tape", **VARIABLES)
    assert first.code == 1, first.stdout + first.stderr
    assert all(request.stream for request in models.requests)
    secrets = {name: SECRETS[name] for name in VARIABLES}
    everything = places(project, first, joined=joined(project.folder / "tape"))
    found = [place for place in found_in(everything) if place.partition(" ")[0] in secrets]
    assert found == []
    replayed = project.run("run", "-o", "again", "--replay", "tape", **VARIABLES)
    assert replayed.code == 1, replayed.stdout + replayed.stderr
    again = json.loads((project.folder / "again" / "results.json").read_bytes())
    assert again["cases"][0]["trials"][0]["turns"][0]["response"] == record.cases[0].trials[0].turns[0].response


def test_a_key_that_is_refused_is_shown_nowhere(project: Project) -> None:
    """Each provider's own words about a key repeat a part of it."""
    with FakeModels(keys=["another"]) as models:
        addresses = {
            "openai": models.openai_url,
            "azure_openai": models.azure_url,
            "anthropic": models.anthropic_url,
            "ollama": models.ollama_url,
        }
        variables = {"azure_openai": "AZURE_OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
        for provider, address in addresses.items():
            inner = Project(project.folder / provider)
            inner.folder.mkdir()
            secret = f"sk-planted-{provider}-3991"
            model: dict[str, Any] = {"provider": provider, "name": "chosen", "endpoint": address}
            inner.suite([{"name": "one", "input": "?", "ground_truth": "x"}], model=model)
            variable = variables.get(provider, f"{provider.upper()}_API_KEY")
            finished = inner.run("run", "-o", "out", "--record", "tape", **{variable: secret})
            if provider != "ollama":
                assert finished.code == 3, finished.stdout + finished.stderr
            for place, text in places(inner, finished).items():
                for form in forms(secret):
                    assert form not in text, place
