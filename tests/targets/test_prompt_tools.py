"""Tools of type `prompt`: templates, what the model behind them is asked, and what becomes of trouble."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.limits.pauses import Deadline
from holodeck_action.llm.providers import ModelConfigError, resolve_model
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import SourceMark
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.model.tools import PromptTool as Entry
from holodeck_action.targets.own_model.prompt_tools import PromptTools
from holodeck_action.targets.own_model.toolbox import Tool, ToolError, ToolResult
from holodeck_action.targets.templates.templates import PromptTemplate
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.tables import walk
from tests.targets.conversations import run
from tests.targets.test_model import config, live_wire
from tests.targets.test_own import asking, assert_hidden, calling, openai, report

PARAMETERS = {"text": {"type": "string"}, "words": {"type": "integer"}}


# -- templates


@walk(
    ("template", "text"),
    [
        ("plain", "plain"),
        ("{{ text }} in {{words}}\n", "Ä <b> in 7\n"),
        ("{{$text}} {{ $words }}", "Ä <b> 7"),
        ("{{ text | upper | replace('<', '(') }}", "Ä (B>"),
        ("{% if words > 3 %}long{% else %}short{% endif %}", "long"),
        ("{% for item in items %}- {{ item }}\n{% endfor %}", '- a\n- {"b": null}\n'),
        ("{{ items }} {{ yes }} {{ none }}", '["a", {"b": null}] true null'),
        ("{{ items | tojson }} {{ text | tojson }}", '["a", {"b": null}] "Ä <b>"'),
        ("{{ missing | default('?') }}", "?"),
        ("{# not told #}{{ inner.b }}", "2"),
    ],
)
def test_a_template_is_filled_in(template: str, text: str) -> None:
    values = {
        "text": "Ä <b>",
        "words": 7,
        "items": ["a", {"b": None}],
        "yes": True,
        "none": None,
        "inner": {"b": 2},
    }
    assert PromptTemplate(template, [*values, "missing"]).render(values) == text


def test_a_value_is_no_template() -> None:
    value = "{{ words }}{% for x in 1 %}"
    assert PromptTemplate("{{ text }}", ["text", "words"]).render({"text": value, "words": 1}) == value


@walk(
    ("template", "reason"),
    [
        ("{{ text", "line 1: unexpected end of template"),
        ("\n{{ tex }}", "unknown parameter `tex` (did you mean `text`?)"),
        ("{{ other }}", "unknown parameter `other` (allowed: text, words)"),
        ("a\n{% include 'x' %}", "line 2: other templates cannot be used here"),
        ("{% extends 'x' %}", "line 1: other templates cannot be used here"),
        ("{% import 'x' as y %}", "line 1: other templates cannot be used here"),
        ("{{ range(9) }}", "line 1: macros or functions cannot be used here"),
        ("{{ text.upper() }}", "line 1: macros or functions cannot be used here"),
        ("{% macro m() %}{% endmacro %}", "line 1: macros or functions cannot be used here"),
        ("{{ 'x' * words }}", "line 1: * and ** cannot be used here"),
        ("{{ 9 ** words }}", "line 1: * and ** cannot be used here"),
        (
            "{% for a in text %}{% for b in text %}{% endfor %}{% endfor %}",
            "line 1: a loop inside a loop cannot be used",
        ),
        (
            "{% for a in text %}{% if a %}{% for b in text %}{% endfor %}{% endif %}{% endfor %}",
            "line 1: a loop inside",
        ),
        ("{{ text | center(999999999) }}", "line 1: unknown filter `center` (allowed: capitalize, "),
        ("{{ text | nonsense }}", "nonsense"),
    ],
)
def test_a_template_that_cannot_be_used_says_why(template: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the text is looked at
        PromptTemplate(template, ["text", "words"])
    assert reason in str(caught.value)


def test_an_expression_without_a_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="has no attribute"):
        PromptTemplate("{{ text.inner }}", ["text"]).render({"text": {}})


def test_the_sandbox_holds() -> None:
    with pytest.raises(ValueError, match=r"unsafe|has no attribute"):
        PromptTemplate("{{ text.__class__.__mro__ }}", ["text"]).render({"text": "x"})


# -- tools


def entry(**fields: Any) -> Entry:
    given = {"type": "prompt", "name": "summary", "description": "Sums up.", "parameters": PARAMETERS, **fields}
    if "file" not in given:
        given.setdefault("template", "Sum up in {{ words }} words: {{ text }}")
    return Entry.model_validate(given)


def kit(models: FakeModels, folder: Path, wire: Any, *entries: Entry, provider: str = "openai") -> PromptTools:
    plan = resolve_model(LLMProvider.model_validate({**config(provider, models), "api_key": KEY}), {})
    marks = {each.name: SourceMark("agent.yaml", 9, 3) for each in entries}
    return PromptTools(entries, checkout=Checkout.of(folder, folder), plan=plan, environ={}, sender=wire, marks=marks)


def using(
    models: FakeModels, folder: Path, args: dict[str, Any], *entries: Entry, **limits: Any
) -> ToolResult | ToolError:
    """Call the first tool."""

    async def work() -> ToolResult | ToolError:
        wire = live_wire()
        prompts = kit(models, folder, wire, *(entries or (entry(),)))
        tools = await prompts.open()
        CALL.set(CallContext("agent", 0, Deadline(60), Meter()))
        first: Tool = tools[0]
        given = {"max_bytes": 10_000, "timeout_s": 60.0, **limits}
        try:
            return await first.call(args, "one", **given)
        except ToolError as error:
            return error
        finally:
            await prompts.close()
            await wire.close()

    result: ToolResult | ToolError = run(work())
    return result


GIVEN = {"text": "a long story", "words": 3}


def test_a_call_asks_the_model_once(models: FakeModels, tmp_path: Path) -> None:
    models.answer(lambda _: "Short.")
    assert using(models, tmp_path, GIVEN) == ToolResult("Short.", 6)
    (request,) = models.requests
    assert [(message.role, message.text) for message in request.messages] == [
        ("user", "Sum up in 3 words: a long story")
    ]
    assert (request.tools, request.body["temperature"], request.model) == ({}, 0.3, "gpt-4o")


def test_a_prompt_has_its_own_model(models: FakeModels, tmp_path: Path) -> None:
    own = {**config("anthropic", models), "api_key": KEY, "temperature": 0.9}
    result = using(models, tmp_path, GIVEN, entry(model=own))
    assert isinstance(result, ToolResult), result
    (request,) = models.requests
    assert (request.provider, request.model, request.body["temperature"]) == ("anthropic", "claude-haiku-4-5", 0.9)


@pytest.mark.proves("PromptTool: parameters")
def test_the_definition_is_made_of_the_parameters(models: FakeModels, tmp_path: Path) -> None:
    async def work() -> Any:
        prompts = kit(models, tmp_path, live_wire(), entry())
        try:
            return (await prompts.open())[0].definition
        finally:
            await prompts.close()

    definition = run(work())
    assert (definition.name, definition.description) == ("summary", "Sums up.")
    assert definition.parameters == {
        "type": "object",
        "properties": PARAMETERS,
        "required": ["text", "words"],
        "additionalProperties": False,
    }


def test_an_answer_is_cut_at_the_limit(models: FakeModels, tmp_path: Path) -> None:
    models.answer(lambda _: "äöü" * 100)
    result = using(models, tmp_path, GIVEN, max_bytes=51)
    assert isinstance(result, ToolResult)
    assert (len(result.value.encode()), result.bytes, result.cut) == (50, 600, True)


def test_an_answer_that_stops_at_max_tokens_says_so(models: FakeModels, tmp_path: Path) -> None:
    models.answer(lambda _: Answer("half of", finish="length"))
    result = using(models, tmp_path, GIVEN)
    assert isinstance(result, ToolResult)
    assert result.value == "half of\n[The answer stops here, at max_tokens.]"


@pytest.mark.parametrize(
    ("fault", "code"),
    [(Fault(error="bad_request"), "bad_request"), (Fault(error="server_error", times=None), "server_error")],
)
def test_trouble_is_the_models_to_see(models: FakeModels, tmp_path: Path, fault: Fault, code: str) -> None:
    models.fail(fault)
    error = using(models, tmp_path, GIVEN)
    assert isinstance(error, ToolError)
    assert (error.code, error.for_model) == (code, f"its model gave no answer ({code})")
    assert "OpenAI model gpt-4o" in error.message


def test_a_call_has_a_deadline(models: FakeModels, tmp_path: Path) -> None:
    models.fail(Fault(wire="stall", times=None))
    error = using(models, tmp_path, GIVEN, timeout_s=0.2)
    assert isinstance(error, ToolError)
    assert (error.code, error.message) == ("timeout", "its model did not answer within 0.2 s")


def test_a_prompt_that_is_too_large_is_not_sent(models: FakeModels, tmp_path: Path) -> None:
    error = using(models, tmp_path, {"text": "x" * 20_000, "words": 1})
    assert isinstance(error, ToolError)
    assert error.code == "too_large"
    assert models.requests == []


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"template": "{{ tex }}"}, "agent.yaml:9:3: tools.summary.template is not a usable template: unknown"),
        (
            {"file": "p.txt", "template": None},
            "agent.yaml:9:3: tools.summary.file is not a usable template: line 2",
        ),
        ({"file": "absent.txt", "template": None}, "tools.summary.file: absent.txt cannot be read: No such file"),
        ({"file": "bad.txt", "template": None}, "tools.summary.file: bad.txt cannot be read: it is not UTF-8 text"),
        (
            {"parameters": {"a": 1}, "template": "x"},
            'agent.yaml:9:3: tools.summary.parameters: "a" must be a JSON schema',
        ),
        ({"parameters": {"a": {"type": "strin"}}, "template": "x"}, "agent.yaml:9:3: tools.summary.parameters: "),
        ({"model": {"provider": "openai", "name": "m"}}, "OpenAI needs a key for the model m, but none is set"),
        (
            {"model": {"provider": "openai", "name": "m", "api_key": "k", "endpoint": "nowhere"}},
            "tools.summary.model.endpoint is not a URL",
        ),
    ],
)
def test_what_is_wrong_is_known_before_anything_runs(
    models: FakeModels, tmp_path: Path, fields: dict[str, Any], complaint: str
) -> None:
    (tmp_path / "p.txt").write_text("\n{{ text")
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    with pytest.raises((TargetError, ModelConfigError)) as caught:
        kit(models, tmp_path, live_wire(), entry(**fields))
    assert complaint in str(caught.value)


def test_a_parameter_without_a_use_is_noted(models: FakeModels, tmp_path: Path) -> None:
    assert kit(models, tmp_path, live_wire(), entry(template="{{ text }}")).notices == (
        "tools.summary: its template does not use the parameter words",
    )


# -- through the command line


def shop(request: Request) -> Answer:
    """The suite's model calls the tool and repeats it; the tool's model answers by itself."""
    if not request.tools:
        return Answer(f"[{request.text}]", prompt_tokens=100, completion_tokens=10)
    if request.results:
        return Answer(request.results[0], prompt_tokens=7, completion_tokens=3)
    return Answer(tools=calling("summary", text="story", words=2).tools, prompt_tokens=5, completion_tokens=1)


CASE = {
    "name": "sum",
    "input": "Sum it up",
    "ground_truth": "[Sum up in 2 words: story]",
    "expected_tools": ["summary"],
}


def tool(**fields: Any) -> dict[str, Any]:
    return json.loads(entry(**fields).model_dump_json(exclude_unset=True))  # type: ignore[no-any-return]


@pytest.mark.full
@pytest.mark.proves("PromptTool: type template file")
@pytest.mark.parametrize("form", ["template", "file"])
def test_a_prompt_is_called_recorded_counted_and_replayed(project: Project, models: FakeModels, form: str) -> None:
    text = "Sum up in {{$words}} words: {{$text}}"
    project.write("prompts/sum.txt", text)
    written = {"template": text} if form == "template" else {"file": "prompts/sum.txt", "template": None}
    entries = {key: value for key, value in {**tool(), **written}.items() if value is not None}
    asking(project, models, [CASE], tools=[entries])
    models.answer(shop)
    finished, record = project.evaluate("--record", "tape", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    turn = record.cases[0].trials[0].turns[0]
    (called,) = turn.tool_invocations or ()
    assert (called.name, called.args, called.result, called.error) == (
        "summary",
        {"text": "story", "words": 2},
        "[Sum up in 2 words: story]",
        None,
    )
    assert turn.usage is not None
    assert (turn.usage.prompt_tokens, turn.usage.completion_tokens) == (112, 14)
    before = report(project, "out")
    again = project.run("run", "-o", "out", "--replay", "tape", OPENAI_API_KEY="")
    assert again.code == 0, again.stdout + again.stderr
    assert report(project, "out") == before
    assert_hidden(project, finished, again)


def test_a_prompts_trouble_is_not_the_runs_end(project: Project, models: FakeModels) -> None:
    asking(project, models, [{**CASE, "ground_truth": "Error: its model gave no answer (bad_request)"}], tools=[tool()])
    models.answer(lambda request: Fault(error="bad_request") if not request.tools else shop(request))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    (called,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert called.error is not None
    assert "refused the request" in called.error


@pytest.mark.parametrize("command", ["run", "validate"])
def test_a_template_that_cannot_be_used_is_a_configuration_error(
    project: Project, models: FakeModels, command: str
) -> None:
    asking(project, models, [CASE], tools=[tool(template="{{ nobody }}")])
    finished = project.run(command, OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "tools.summary.template is not a usable template: unknown parameter `nobody`" in finished.stderr
    assert models.requests == []


@pytest.mark.proves("PromptTool: model")
def test_a_prompt_asks_the_model_it_names(project: Project, models: FakeModels) -> None:
    asking(project, models, [CASE], tools=[tool(model=openai(models, name="gpt-4o-mini"))])
    models.answer(shop)
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [request.model for request in models.requests] == ["gpt-4o", "gpt-4o-mini", "gpt-4o"]
