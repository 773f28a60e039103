"""`response_format`: what each provider is asked for, and what becomes of answers that do not fit."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from holodeck_action.llm import messages
from holodeck_action.llm.chat import ChatAnswer, is_closed, is_strict
from holodeck_action.llm.providers import resolve_model
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.targets.own_model.model_agent import AnswerFormat, ModelAgent
from holodeck_action.targets.protocol import Reply
from holodeck_action.text.plain import cut
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels
from tests.tables import walk
from tests.targets.conversations import MAX_BYTES, converse, make_case, run
from tests.targets.test_model import config, live_wire
from tests.targets.test_own import asking, assert_hidden, calling, function, recorded_error, report

CLOSED = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
    "required": ["city", "days"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer", "default": 1}}}
LEEDS = '{"city": "Leeds", "days": 2}'


def ask(models: FakeModels, provider: str, schema: dict[str, Any], *inputs: str, **fields: Any) -> Any:
    """Return the last answer of a conversation with a model whose answers must fit a schema."""

    async def work() -> list[Reply | AgentError]:
        reference = {**config(provider, models), "api_key": KEY, **fields}
        wire = live_wire()
        agent = ModelAgent(
            resolve_model(LLMProvider.model_validate(reference), {}),
            wire,
            "Be brief.",
            max_bytes=MAX_BYTES,
            turn_s=20.0,
            monotonic=time.monotonic,
            answer_format=AnswerFormat(schema),
        )
        try:
            return await converse(agent, make_case("case", *(inputs or ("where?",))))
        finally:
            await wire.close()

    return run(work())[-1]


# -- what is sent


@pytest.mark.parametrize("provider", ["openai", "azure", "azure-v1"])
@pytest.mark.parametrize(("schema", "strict"), [(CLOSED, True), (OPEN, False)])
def test_openai_is_asked_for_the_schema(
    models: FakeModels, provider: str, schema: dict[str, Any], strict: bool
) -> None:
    models.answer(lambda _: LEEDS)
    assert ask(models, provider, schema).response == LEEDS
    form = models.requests[0].body["response_format"]
    assert form == {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema, "strict": strict}}
    assert models.requests[0].system == "Be brief."


def test_ollama_is_asked_for_the_schema(models: FakeModels) -> None:
    models.answer(lambda _: LEEDS)
    assert ask(models, "ollama", CLOSED).response == LEEDS
    form = models.requests[0].body["response_format"]
    assert form == {"type": "json_schema", "json_schema": {"name": "answer", "schema": CLOSED}}


@pytest.mark.parametrize("provider", ["anthropic", "anthropic-stream"])
def test_anthropic_is_asked_for_the_schema(models: FakeModels, provider: str) -> None:
    models.answer(lambda _: LEEDS)
    assert ask(models, provider, CLOSED).response == LEEDS
    assert models.requests[0].schema == CLOSED
    assert models.requests[0].system == "Be brief."


@pytest.mark.parametrize(
    ("provider", "fields", "schema"),
    [
        ("anthropic", {"name": "claude-3-5-haiku-latest"}, CLOSED),
        ("anthropic", {}, {"type": "object", "additionalProperties": {"type": "integer"}}),
        ("anthropic", {}, {"properties": {"city": {}}}),
        ("ollama", {"name": "gpt-oss:120b-cloud"}, CLOSED),
    ],
    ids=["model", "open-object", "untranslatable", "cloud"],
)
def test_a_schema_that_cannot_be_sent_stands_in_the_instructions(
    models: FakeModels, provider: str, fields: dict[str, Any], schema: dict[str, Any]
) -> None:
    models.answer(
        lambda _: f"\n```json\n{json.dumps({'city': 1} if schema is not CLOSED else json.loads(LEEDS))}\n```\n"
    )
    reply = ask(models, provider, schema, "one", "two", **fields)
    assert isinstance(reply, Reply), reply
    assert reply.response in (LEEDS, '{"city": 1}')
    for request in models.requests:
        assert request.schema is None
        assert request.system == (
            "Be brief.\n\nAnswer with one JSON value that fits the JSON schema below. Write nothing else.\n\n"
            + json.dumps(schema)
        )


def strict(**parts: Any) -> dict[str, Any]:
    properties = {"a": {"type": "string"}, **parts}
    return {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}


@walk(
    ("schema", "expected"),
    [
        (CLOSED, True),
        (OPEN, False),
        (strict(b={"type": ["integer", "null"], "minimum": 1}), True),
        (strict(b={"type": "array", "items": {"type": "string"}}), True),
        (strict(b={"type": "array"}), False),
        (strict(b={"type": "array", "items": {}}), False),
        (strict(b={"type": "array", "items": OPEN}), False),
        (strict(b={"type": "string", "minLength": 1}), False),
        (strict(b={"type": "string", "format": "uri"}), False),
        (strict(b={"type": "string", "format": "date"}), True),
        (strict(b={"type": "string", "pattern": "(?=x)"}), False),
        (strict(b={"oneOf": [{"type": "string"}]}), False),
        (strict(b={"anyOf": [{"type": "string"}, CLOSED]}), True),
        (strict(b={"anyOf": [{"type": "string"}, OPEN]}), False),
        ({**strict(b={"$ref": "#/$defs/x"}), "$defs": {"x": CLOSED}}, True),
        ({**strict(b={"$ref": "#/$defs/x"}), "$defs": {"x": OPEN}}, False),
        (strict(b={"$ref": "#/properties/a"}), False),
        (strict(b={}), False),
        ({**strict(), "required": []}, False),
        ({"type": "array", "items": {"type": "string"}}, False),
        ({"anyOf": [CLOSED], **strict()}, False),
        ({}, False),
    ],
)
def test_which_schemas_are_strict(schema: dict[str, Any], expected: bool) -> None:
    assert is_strict(schema) is expected


@walk(
    ("schema", "expected"),
    [
        (CLOSED, True),
        (OPEN, True),
        ({"type": "object"}, False),
        ({"type": "array", "items": {"type": "object", "additionalProperties": True}}, False),
        ({**CLOSED, "patternProperties": {"a": {}}}, False),
        ({**CLOSED, "$defs": {"x": {"type": "object"}}}, False),
        ({"type": "array", "items": True}, True),
    ],
)
def test_which_schemas_name_all_properties(schema: dict[str, Any], expected: bool) -> None:
    assert is_closed(schema) is expected


# -- what comes back


def error(
    models: FakeModels, text: Answer | str, schema: dict[str, Any] = CLOSED, provider: str = "openai"
) -> AgentError:
    models.answer(lambda _: text)
    found = ask(models, provider, schema)
    assert isinstance(found, AgentError), found
    return found


@pytest.mark.parametrize(
    ("text", "problem", "path"),
    [
        ('{"city": "Leeds", "days": "2"}', "days must be of type integer, not text", "properties.days.type"),
        ('{"city": "Leeds"}', "days is missing", "required"),
        ('{"city": "L", "days": 1, "x": 1}', "unknown key `x` (allowed: city, days)", "additionalProperties"),
        ('["Leeds", 2]', "the answer must be of type object, not a list", "type"),
    ],
)
def test_an_answer_that_does_not_fit_is_an_error(models: FakeModels, text: str, problem: str, path: str) -> None:
    found = error(models, text)
    assert found.code == "bad_output"
    assert found.message == f"the answer does not fit response_format: {problem} (at {path} of the schema)"
    assert found.context == {"answer": text, "schema_path": path}


@pytest.mark.parametrize(
    "text", ["", "Leeds", '{"city": "Leeds"', f"Here it is: {LEEDS}", f"```json\n{LEEDS}\n```", "[" * 100_000, "NaN"]
)
def test_an_answer_that_is_no_json_is_an_error(models: FakeModels, text: str) -> None:
    found = error(models, Answer(text, finish="stop"))
    assert found.code == "bad_output"
    assert found.message.startswith("the answer is not JSON, which response_format requires (")
    assert len(found.message) < 500
    assert found.context["answer"] == cut(text, 2000)


@pytest.mark.parametrize("provider", ["openai", "anthropic", "ollama"])
def test_an_answer_that_stops_at_the_limit_says_so(models: FakeModels, provider: str) -> None:
    found = error(models, Answer('{"city": "Lee', finish="length"), provider=provider)
    assert (found.code, found.message) == (
        "cut_off",
        "the answer stops at max_tokens 1000, before its JSON is complete; raise model.max_tokens",
    )


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_refusal_is_no_answer(models: FakeModels, provider: str) -> None:
    found = error(models, Answer(refusal="I will not do that"), provider=provider)
    assert (found.code, found.message) == ("refused", "the model refused to answer: I will not do that")


@pytest.mark.full
def test_a_pattern_has_a_time_limit() -> None:
    schema = {"type": "string", "pattern": "^(a|aa)+$"}
    with pytest.raises(AgentError, match="too long or too repetitive"):
        AnswerFormat(schema).read(_answer(json.dumps("a" * 60 + "!")), max_tokens=None, redact=str)


def test_a_schema_elsewhere_is_not_fetched() -> None:
    with pytest.raises(AgentError, match="refers to an undefined definition"):
        AnswerFormat({"$ref": "http://127.0.0.1:9/schema.json"}).read(_answer("1"), max_tokens=None, redact=str)


@pytest.mark.parametrize(
    ("text", "response"),
    [
        ('{ "b":1,\n"a": "\\u00e4" }', '{"b": 1, "a": "ä"}'),
        ('"\\ud800"', '"\ufffd"'),
        ("3", "3"),
        ("null", "null"),
    ],
)
def test_the_metrics_see_json_text(models: FakeModels, text: str, response: str) -> None:
    models.answer(lambda _: text)
    assert ask(models, "openai", {}).response == response


def test_an_answer_that_does_not_fit_is_not_in_the_conversation(models: FakeModels) -> None:
    models.script(["no", LEEDS])
    assert ask(models, "openai", CLOSED, "one", "two").response == LEEDS
    assert [message.text for message in models.requests[1].messages if message.role == "user"] == ["two"]


def test_a_schema_that_is_none_is_refused() -> None:
    with pytest.raises(TargetError, match=r"^response_format is not a JSON schema: type: "):
        AnswerFormat({"type": "strin"})


def _answer(text: str) -> ChatAnswer:
    return ChatAnswer(text, messages.Reply((messages.Text(text),)))


# -- through the command line


CASE = {"name": "trip", "input": "Where, and how long?", "ground_truth": LEEDS}


@pytest.mark.proves("AgentConfig: response_format")
@pytest.mark.parametrize("form", ["inline", "file"])
def test_a_structured_answer_is_graded_as_its_json(project: Project, models: FakeModels, form: str) -> None:
    project.write("shapes/trip.json", json.dumps(CLOSED))
    asking(project, models, [CASE], response_format=CLOSED if form == "inline" else "shapes/trip.json")
    models.answer(lambda _: '{"city":"Leeds","days":2}')
    finished, record = project.evaluate("--record", "tape", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert models.requests[0].schema == CLOSED
    assert record.cases[0].trials[0].turns[0].response == LEEDS
    before = report(project, "out")
    # Offline and without a key.
    assert project.run("run", "-o", "out", "--replay", "tape", OPENAI_API_KEY="").code == 0
    assert report(project, "out") == before
    assert_hidden(project, finished)


@pytest.mark.proves("AgentConfig: response_format")
def test_an_answer_that_does_not_fit_is_never_a_pass(project: Project, models: FakeModels) -> None:
    # What it says is what is expected, only not in the form.
    asking(project, models, [{**CASE, "ground_truth": '{"city": "Leeds"}'}], response_format=CLOSED)
    models.answer(lambda _: '{"city": "Leeds"}')
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3, finished.stdout + finished.stderr
    assert "the answer does not fit response_format: days is missing (at required of the schema)" in finished.stdout
    found = recorded_error(record)
    assert (found.code, found.context["schema_path"]) == ("bad_output", "required")


def test_tools_come_before_the_structured_answer(project: Project, models: FakeModels) -> None:
    project.write("shop.py", "def find_order(order: str) -> str:\n    return 'Leeds'\n")
    asking(
        project,
        models,
        [{**CASE, "expected_tools": ["find_order"]}],
        response_format=CLOSED,
        tools=[function("find_order")],
    )
    models.script([calling("find_order", order="A-17"), LEEDS])
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [[*request.tools] for request in models.requests] == [["find_order"]] * 2
    assert [request.schema for request in models.requests] == [CLOSED] * 2


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (None, "the file does not exist (allowed: a path relative to agent.yaml)"),
        ("{", "the file is not valid JSON: Expecting property name enclosed in double quotes at column 2"),
        ('["type"]', "the file does not contain a JSON schema (it must be an object)"),
        (
            '{"type": "strin"}',
            "the file does not contain a JSON schema (type: 'strin' is not valid under any of the given schemas",
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_file_that_holds_no_schema_is_refused_at_its_line(
    project: Project, models: FakeModels, content: str | None, complaint: str, command: str
) -> None:
    if content is not None:
        project.write("trip.json", content)
    asking(project, models, [CASE], response_format="trip.json")
    line = next(
        number
        for number, text in enumerate((project.folder / "agent.yaml").read_text().splitlines(), start=1)
        if "response_format" in text
    )
    finished = project.run(command, OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert f"agent.yaml:{line}:21: response_format: {complaint}" in finished.stderr
    assert models.requests == []


# -- answers that stop at the limit, without a schema


def test_an_answer_that_stops_at_the_limit_is_told(project: Project, models: FakeModels) -> None:
    cases = [{"name": f"case {n}", "input": f"say {n}", "ground_truth": str(n)} for n in range(3)]
    asking(project, models, cases)
    models.answer(
        lambda request: (
            Answer("half of", finish="length") if "say 2" not in request.text else Answer("2", finish="stop")
        )
    )
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 1
    assert [case.trials[0].turns[0].finish_reason for case in record.cases] == ["length", "length", "stop"]
    assert "2 answers stop at max_tokens 1000; raise model.max_tokens" in record.notices
    shown = (project.out / "report.md").read_text()
    assert "2 answers stop at max_tokens 1000" in shown
    assert shown.count("the answer stops at the model's max\\_tokens") == 3


def test_a_refusal_is_recorded_as_one(project: Project, models: FakeModels) -> None:
    asking(project, models, [{"name": "a", "input": "?", "ground_truth": "no"}])
    models.answer(lambda _: Answer(refusal="no"))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout
    assert record.cases[0].trials[0].turns[0].finish_reason == "refusal"
