"""A setting that a service refuses by name is left out or renamed, for the rest of the run and in its recording."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request
from tests.llm.models.rules import echo
from tests.llm.models.values import Reply
from tests.tables import walk

Refusal = tuple[str, str, Mapping[str, Any]]
"""A field of the body with the error of a service that refuses it: its message, and more of the error object."""

NAME = "lab-1"
TEMPERATURE: Refusal = (
    "temperature",
    "Unsupported value: 'temperature' does not support 0.3 with this model. Only the default (1) value is supported.",
    {"param": "temperature", "code": "unsupported_value"},
)
LIMIT: Refusal = (
    "max_tokens",
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
    {"param": "max_tokens", "code": "unsupported_parameter"},
)
EFFORT: Refusal = (
    "reasoning_effort",
    "Unsupported value: 'minimal' is not supported with the 'lab-1' model. Supported values are: 'none', 'low', and "
    "'medium'.",
    {"param": "reasoning_effort", "code": "unsupported_value"},
)
NO_TEMPERATURE = f"temperature is not sent to {NAME}, which does not accept it"
NO_EFFORT = f"effort is not sent to {NAME}, which does not accept it"
RENAMED = f"max_tokens is sent to {NAME} as max_completion_tokens, the name it requires"
LOW = f"effort minimal is sent to {NAME} as low, the closest value it accepts"


def strict(*refusals: Refusal, accepts: Callable[[str, Any], bool] = lambda name, value: False) -> Any:
    """Return a rule that refuses the first of these fields in a request, in their order."""

    def rule(request: Request) -> Reply:
        for name, message, more in refusals:
            value = request.body.get(name)
            if value is not None and not accepts(name, value):
                error = {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}
                return Fault(status=400, body={"error": error})
        return echo(request)

    return rule


def ask_twice(project: Project, models: FakeModels, provider: str = "openai", **more: Any) -> None:
    """Write a suite of two cases, which are answered one after the other."""
    url = models.anthropic_url if provider == "anthropic" else models.openai_url
    cases = [{"name": text, "input": text, "ground_truth": f"echo: {text}"} for text in ("one", "two")]
    model = {"provider": provider, "name": NAME, "endpoint": url, **more.pop("model", {})}
    project.suite(cases, model=model, **more)


def noted(finished: Finished) -> list[str]:
    """Return the notices about the model."""
    notes = [line.removeprefix("note: ") for line in finished.stderr.splitlines() if line.startswith("note: ")]
    return [note for note in notes if f"to {NAME}" in note]


KEYS = {"OPENAI_API_KEY": KEY, "ANTHROPIC_API_KEY": KEY}
ROWS: tuple[tuple[str, tuple[Refusal, ...], dict[str, Any], dict[str, Any], tuple[str, ...]], ...] = (
    ("openai", (TEMPERATURE,), {}, {"temperature": None, "max_tokens": 1000}, (NO_TEMPERATURE,)),
    ("openai", (LIMIT,), {}, {"max_tokens": None, "max_completion_tokens": 1000, "temperature": 0.3}, (RENAMED,)),
    (
        "openai",
        (TEMPERATURE, LIMIT, EFFORT),
        {"openai": {"effort": "minimal"}},
        {"temperature": None, "max_tokens": None, "max_completion_tokens": 1000, "reasoning_effort": "low"},
        (LOW, RENAMED, NO_TEMPERATURE),
    ),
    (
        "openai",
        (("reasoning_effort", "Unrecognized request argument supplied: reasoning_effort", {}),),
        {"openai": {"effort": "high"}},
        {"reasoning_effort": None},
        (NO_EFFORT,),
    ),
    (
        "openai",
        (("temperature", "litellm.UnsupportedParamsError: lab does not support parameters: ['temperature'], for", {}),),
        {},
        {"temperature": None},
        (NO_TEMPERATURE,),
    ),
    (
        "anthropic",
        (("temperature", "`temperature` is deprecated for this model.", {}),),
        {},
        {"temperature": None, "max_tokens": 1000},
        (NO_TEMPERATURE,),
    ),
)


@pytest.mark.parametrize(("provider", "refusals", "more", "body", "notices"), ROWS)
def test_a_refused_setting_is_changed_once_and_the_recording_stands(
    project: Project,
    models: FakeModels,
    provider: str,
    refusals: tuple[Refusal, ...],
    more: dict[str, Any],
    body: dict[str, Any],
    notices: tuple[str, ...],
) -> None:
    before = len(models.requests)
    models.answer(strict(*refusals, accepts=lambda name, value: value == "low"))
    ask_twice(project, models, provider, **more)
    tape = f"tape {before}"
    finished, record = project.evaluate("--record", tape, "--concurrency", "1", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    # Only the first case is refused: once for each setting.
    sent = [request.body for request in models.requests[before:]]
    assert len(sent) == 2 + len(refusals)
    for accepted in sent[-2:]:
        assert {name: accepted.get(name) for name in body} == body
    assert noted(finished) == [*notices]
    assert record.run.notices == notices

    # A recording keeps what was asked for, and its replay tells what was changed.
    lines = [json.loads(line) for line in (project.folder / tape / "cassette.jsonl").read_text().splitlines()]
    assert [name in line["request"]["body"] for line in lines for name, *_ in refusals] == [True] * 2 * len(refusals)
    replayed, again = project.evaluate("--replay", tape, **KEYS)
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert len(models.requests) - before == len(sent)
    assert noted(replayed) == [*notices]
    assert again.run.notices == notices
    assert [case.trials[0].turns[0].response for case in again.cases] == ["echo: one", "echo: two"]


@pytest.mark.full
@pytest.mark.needs("deepeval")
def test_a_judge_and_the_agent_share_what_a_model_refused(project: Project, models: FakeModels) -> None:
    refuse = strict(TEMPERATURE)

    def rule(request: Request) -> Reply:
        said = refuse(request)
        return '{"reason": "so", "score": 9}' if "Read it." in str(request.body) and isinstance(said, Answer) else said

    models.answer(rule)
    geval = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Read it."]}
    ask_twice(project, models, evaluations={"metrics": [geval]})
    finished, _ = project.evaluate("--concurrency", "1", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert noted(finished) == [NO_TEMPERATURE]
    assert sum("temperature" in request.body for request in models.requests) == 1


@walk("name", ["gpt-7-x", "gpt-6-luna", "gpt-5.6", "gpt-5.2", "o3", "gpt-4.1"])
def test_the_rules_about_models_leave_nothing_to_refuse(project: Project, models: FakeModels, name: str) -> None:
    before = len(models.requests)
    thinking = (TEMPERATURE, LIMIT, EFFORT) if name not in ("gpt-5.2", "gpt-4.1") else (LIMIT,)
    models.answer(strict(*thinking, accepts=lambda field, value: value in ("low", "medium", "high")))
    ask_twice(project, models, model={"name": name, "max_tokens": None}, openai={"effort": "medium"})
    finished = project.run("run", **KEYS)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(models.requests) - before == 2


@walk(
    ("refusals", "said"),
    [
        # What the request is about cannot be left out.
        (
            (("messages", "Unsupported value: 'messages'.", {"param": "messages", "code": "unsupported_value"}),),
            "Unsupported value: 'messages'",
        ),
        # A service that takes neither name of the limit gets no third request.
        ((LIMIT, ("max_completion_tokens", "Use 'max_tokens' instead.", {})), "Use 'max_completion_tokens' instead"),
    ],
)
def test_other_refusals_stay_errors(
    project: Project, models: FakeModels, refusals: tuple[Refusal, ...], said: str
) -> None:
    before = len(models.requests)
    models.answer(strict(*refusals))
    ask_twice(project, models, openai={"effort": "low"})
    finished, record = project.evaluate("--concurrency", "1", **KEYS)
    assert finished.code == 3, finished.stdout + finished.stderr
    error = record.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == "bad_request"
    assert said in error.message
    assert noted(finished) == []
    assert len(models.requests) - before <= 6
