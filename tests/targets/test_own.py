"""The suite's own model behind `run`: real processes against a model server on loopback."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from holodeck_action.record.canonical import record_digest
from holodeck_action.record.evaluation import ErrorInfo
from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request, ToolCall

PROVIDERS: list[tuple[str, str, dict[str, str]]] = [
    ("openai", "OPENAI_API_KEY", {}),
    ("azure_openai", "AZURE_OPENAI_API_KEY", {"api_version": "2024-10-21"}),
    ("anthropic", "ANTHROPIC_API_KEY", {}),
    ("ollama", "OLLAMA_API_KEY", {}),
]
"""Every provider, the variable of its key, and what its reference needs besides."""
INSTRUCTIONS = "You answer customers of a shop."
SHOP = '''
import time


def find_order(order: str) -> str:
    """Say where an order is."""
    return f"{order} is in Leeds"


def broken(order: str) -> str:
    raise ValueError(f"no such order: {order}")


def hangs(order: str) -> str:
    time.sleep(600)
'''


def openai(models: FakeModels, **more: Any) -> dict[str, Any]:
    return {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, **more}


def function(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "name": name, "description": "Looks.", "file": "shop.py", "function": name, **more}


def asking(project: Project, models: FakeModels, cases: list[dict[str, Any]] | None = None, **top: Any) -> None:
    """Write a suite that asks the server's OpenAI model; by default one case, which an echo passes."""
    cases = cases or [{"name": "echo", "input": "ping", "ground_truth": "echo: ping"}]
    given = {"model": openai(models), "instructions": {"inline": INSTRUCTIONS}, **top}
    project.suite(cases, **given)


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def assert_hidden(project: Project, *finished: Finished) -> None:
    """The planted key stands in no output and in no file."""
    for each in finished:
        assert KEY not in each.stdout + each.stderr
    assert [name for name, data in files_below(project.folder).items() if KEY.encode() in data] == []


def recorded_error(record: Record) -> ErrorInfo:
    """The error of the first turn of a record."""
    found = record.cases[0].trials[0].turns[0].error
    assert found is not None
    return found


# -- conversations


@pytest.mark.proves("AgentConfig: instructions", "Instructions: file")
def test_a_conversation_has_its_history_and_the_instructions(project: Project, models: FakeModels) -> None:
    turns = [
        {"input": "Where is A-17?", "ground_truth": "In Leeds"},
        {"input": "And when does it come?", "ground_truth": "Tomorrow"},
    ]
    project.write("prompt.md", INSTRUCTIONS)
    asking(project, models, [{"name": "order", "turns": turns}], instructions={"file": "prompt.md"})
    models.script([Answer("In Leeds", prompt_tokens=11, completion_tokens=3), "Tomorrow"])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    first, second = models.requests
    assert (first.model, first.system, second.system) == ("gpt-4o", INSTRUCTIONS, INSTRUCTIONS)
    assert [(m.role, m.text) for m in first.messages if m.role != "system"] == [("user", "Where is A-17?")]
    assert [(m.role, m.text) for m in second.messages if m.role != "system"] == [
        ("user", "Where is A-17?"),
        ("assistant", "In Leeds"),
        ("user", "And when does it come?"),
    ]
    answered = record.cases[0].trials[0].turns
    assert [turn.response for turn in answered] == ["In Leeds", "Tomorrow"]
    usage = answered[0].usage
    assert usage is not None
    assert (usage.prompt_tokens, usage.completion_tokens) == (11, 3)
    assert_hidden(project, finished)


def test_trials_are_conversations_of_their_own(project: Project, models: FakeModels) -> None:
    asking(project, models)
    finished, record = project.evaluate("--repeat", "3", "--min-pass", "3", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(record.cases[0].trials) == 3
    assert [len(request.messages) for request in models.requests] == [2, 2, 2]


@pytest.mark.proves("AgentConfig: model", "LLMProvider: provider name endpoint")
@pytest.mark.parametrize(("provider", "variable", "more"), PROVIDERS)
def test_every_provider_answers(
    project: Project, models: FakeModels, provider: str, variable: str, more: dict[str, str]
) -> None:
    address = {
        "openai": models.openai_url,
        "azure_openai": models.azure_url,
        "anthropic": models.anthropic_url,
        "ollama": models.ollama_url,
    }[provider]
    asking(project, models, model={"provider": provider, "name": "chosen", "endpoint": address, **more})
    finished, record = project.evaluate(**{variable: KEY})
    assert finished.code == 0, finished.stdout + finished.stderr
    (request,) = models.requests
    assert (request.provider, request.model, request.system) == (provider, "chosen", INSTRUCTIONS)
    assert record.provenance.target == f"model:{provider}/chosen"
    assert_hidden(project, finished)


@pytest.mark.needs
@pytest.mark.proves("LLMProvider: temperature max_tokens top_p")
def test_the_settings_of_a_model_reach_it(project: Project, models: FakeModels) -> None:
    """The agent's and a judge's; with others than the defaults."""
    judge = openai(models, name="a-judge", temperature=0.6, max_tokens=66, top_p=0.66)
    metric = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Read it."], "model": judge}
    own = openai(models, temperature=0.7, max_tokens=77, top_p=0.77)
    asking(project, models, [{"name": "echo", "input": "ping"}], model=own, evaluations={"metrics": [metric]})
    models.answer(lambda request: '{"reason": "so", "score": 9}' if request.model == "a-judge" else "pong")
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    sent = {request.model: request.body for request in models.requests}
    limit = {name: body.get("max_tokens", body.get("max_completion_tokens")) for name, body in sent.items()}
    assert {name: (body["temperature"], limit[name], body["top_p"]) for name, body in sent.items()} == {
        "gpt-4o": (0.7, 77, 0.77),
        "a-judge": (0.6, 66, 0.66),
    }


def test_the_own_model_answers_instead_of_the_policy_files_target(project: Project, models: FakeModels) -> None:
    asking(project, models)
    project.policy(target="recorded:absent.jsonl")
    assert project.run("run", OPENAI_API_KEY=KEY).code == 2
    finished, record = project.evaluate("--target", "model", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert record.provenance.target == "model:openai/gpt-4o"


# -- tools


def calling(name: str, **arguments: Any) -> Answer:
    return Answer(tools=(ToolCall(name, arguments),))


@pytest.mark.proves("AgentConfig: tools", "ToolModel: name", "FunctionTool: type file function")
def test_a_function_is_called_and_recorded(project: Project, models: FakeModels) -> None:
    case = {"name": "order", "input": "Where is A-17?", "ground_truth": "Leeds", "expected_tools": ["find_order"]}
    project.write("shop.py", SHOP)
    asking(project, models, [case], tools=[function("find_order")])
    models.script([calling("find_order", order="A-17"), "Leeds"])
    finished, record = project.evaluate("--record", "tape", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    first, second = models.requests
    assert [*first.tools] == ["find_order"]
    assert second.results == ("A-17 is in Leeds",)
    (called,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert (called.name, called.args, called.result, called.error) == (
        "find_order",
        {"order": "A-17"},
        "A-17 is in Leeds",
        None,
    )
    assert_hidden(project, finished)
    # In order of time; those of a replay have no time, but their order and the models' own durations.
    _, replayed = project.evaluate("--replay", "tape")
    assert record_digest(replayed) == record_digest(record)
    both = [each.cases[0].trials[0].turns[0].timing for each in (record, replayed)]
    timed, untimed = (timing.steps for timing in both if timing is not None)
    assert [(step.tool, step.model) for step in timed] == [(None, "gpt-4o"), (0, None), (None, "gpt-4o")]
    starts = [step.start_ms for step in timed if step.start_ms is not None]
    assert (len(starts), starts) == (3, sorted(starts))
    assert untimed == tuple(structs.replace(step, start_ms=None) for step in timed)


@pytest.mark.proves("FunctionTool: is_retrieval", "ToolModel: description")
@pytest.mark.parametrize("is_retrieval", [True, False])
def test_what_a_retrieval_function_returns_is_context(project: Project, models: FakeModels, is_retrieval: bool) -> None:
    project.write("shop.py", SHOP)
    tool = {**function("find_order"), "description": "Finds orders", "is_retrieval": is_retrieval}
    asking(project, models, tools=[tool])
    models.script([calling("find_order", order="A-17"), "echo: ping"])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert "Finds orders" in json.dumps(models.requests[0].body)
    found = record.cases[0].trials[0].turns[0].retrieval_context
    assert found == (("A-17 is in Leeds",) if is_retrieval else None)


def test_a_tool_that_was_expected_and_not_called_fails(project: Project, models: FakeModels) -> None:
    case = {"name": "order", "input": "Where?", "ground_truth": "Leeds", "expected_tools": ["find_order"]}
    project.write("shop.py", SHOP)
    asking(project, models, [case], tools=[function("find_order")])
    models.answer(lambda _: "Leeds")
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 1, finished.stdout + finished.stderr


def test_a_tool_that_raises_is_the_models_to_see(project: Project, models: FakeModels) -> None:
    case = {"name": "order", "input": "Where is X?", "ground_truth": "I cannot find it"}
    project.write("shop.py", SHOP)
    asking(project, models, [case], tools=[function("broken")])
    models.script([calling("broken", order="X"), "I cannot find it"])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert "no such order: X" in models.requests[1].results[0]
    (called,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert called.error is not None
    assert "no such order: X" in called.error


def test_a_model_that_calls_for_ever_is_in_error(project: Project, models: FakeModels) -> None:
    project.write("shop.py", SHOP)
    asking(project, models, tools=[function("find_order")])
    models.answer(lambda _: replace(calling("find_order", order="A-17"), prompt_tokens=7))
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3
    assert len(models.requests) == 20
    (turn,) = record.cases[0].trials[0].turns
    assert turn.error is not None
    assert (turn.error.code, turn.error.message) == (
        "too_many_calls",
        "the model called tools 20 times in one turn without giving an answer",
    )
    assert [(call.name, call.result) for call in turn.tool_invocations or ()] == [
        ("find_order", "A-17 is in Leeds")
    ] * 20
    assert (turn.response, turn.usage and turn.usage.prompt_tokens) == (None, 20 * 7)


@pytest.mark.parametrize(
    ("flag", "code", "ended", "known"),
    [
        ("--turn-timeout", "timeout", "it took longer than {} s", None),
        ("--case-timeout", "case_timeout", "it was stopped because the turn had ended", 7),
    ],
)
def test_a_turn_that_ends_at_a_deadline_shows_what_it_was_doing(
    project: Project, models: FakeModels, flag: str, code: str, ended: str, known: int | None
) -> None:
    """A tool may take half of a turn; what a model's call that was broken off costs is not known.

    On a slow machine even the tool that does not hang may take longer: then the turn gets more time.
    """
    project.write("shop.py", SHOP)
    asking(project, models, tools=[function("find_order"), function("hangs")])
    orders = [replace(calling("find_order", order="A-17"), prompt_tokens=3)]
    for seconds in (3, 12, 48):
        models.script([*orders, replace(calling("hangs", order="B"), prompt_tokens=4), *[Fault(delay=600)] * 2])
        finished, record = project.evaluate(flag, str(seconds), OPENAI_API_KEY=KEY)
        (turn,) = record.cases[0].trials[0].turns
        if [call.name for call in turn.tool_invocations or () if call.error is not None] == ["hangs"]:
            break
    ended = ended.format(f"{seconds / 2:g}")
    assert finished.code == 3
    assert turn.error is not None
    assert (turn.error.code, turn.usage and turn.usage.prompt_tokens) == (code, known)
    found, hung = turn.tool_invocations or ()
    assert (found.result, hung.name, hung.args) == ("A-17 is in Leeds", "hangs", {"order": "B"})
    assert hung.error is not None
    assert ended in hung.error
    report = project.run("report", "out/results.json", "--format", "markdown").stdout
    assert "find_order" in report
    assert hung.error in report


@pytest.mark.full
def test_a_turn_that_asked_nobody_cost_nothing(project: Project, models: FakeModels) -> None:
    """What the turns before it cost stands there alone."""
    project.write("broken.pdf", "no document")
    files = [{"path": "broken.pdf", "type": "pdf"}]
    turns = [{"input": "ping", "ground_truth": "pong"}, {"input": "Sum it up", "ground_truth": "x", "files": files}]
    asking(project, models, [{"name": "talk", "turns": turns}])
    models.script([Answer("pong", prompt_tokens=7, completion_tokens=3)])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 3
    first, second = record.cases[0].trials[0].turns
    assert second.error is not None
    assert (second.error.code, second.usage, second.tool_invocations) == ("bad_file", None, ())
    assert first.usage is not None
    assert first.usage.prompt_tokens == 7


def test_a_tool_that_hangs_is_the_models_to_see(project: Project, models: FakeModels) -> None:
    project.write("shop.py", SHOP)
    case = {"name": "order", "input": "Where is X?", "ground_truth": "I cannot find it"}
    asking(project, models, [case], tools=[function("hangs")])
    # On a slow machine what comes after it may need more than the other half of the turn.
    for seconds in (4, 16, 64):
        models.script([calling("hangs", order="X"), "I cannot find it"])
        finished, record = project.evaluate("--turn-timeout", str(seconds), OPENAI_API_KEY=KEY)
        if finished.code == 0:
            break
    assert finished.code == 0, finished.stdout + finished.stderr
    said = f"it took longer than {seconds / 2:g} s; its process was ended"
    assert models.requests[-1].results == (f"Error: {said}",)
    (hung,) = record.cases[0].trials[0].turns[0].tool_invocations or ()
    assert hung.error == f"shop.py:hangs: {said}"


@pytest.mark.full
def test_nothing_is_left_open(project: Project, models: FakeModels) -> None:
    """The process ends at once, without a look at what is left; in Python's development mode it looks, and tells."""
    project.write("shop.py", SHOP)
    tone = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": ["Look."], "threshold": 0.5}
    case = {"name": "order", "input": "Where is A-17?"}
    asking(project, models, [case], tools=[function("find_order")], evaluations={"metrics": [tone]})
    models.script([calling("find_order", order="A-17"), "Leeds", '{"reason": "so", "score": 9}'])
    watched = {"PYTHONDEVMODE": "1", "PYTHONWARNINGS": "ignore,default::ResourceWarning"}
    finished, _ = project.evaluate(OPENAI_API_KEY=KEY, **watched)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert "ResourceWarning" not in finished.stderr


def test_a_function_that_is_not_there_is_a_configuration_error(project: Project, models: FakeModels) -> None:
    project.write("shop.py", SHOP)
    asking(project, models, tools=[function("find_order"), function("absent")])
    finished = project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "absent" in finished.stderr
    assert models.requests == []


# -- keys


def test_a_missing_key_is_named_before_anything_is_asked(project: Project, models: FakeModels) -> None:
    asking(project, models, model={"provider": "openai", "name": "gpt-4o"})
    finished = project.run("run", OPENAI_API_KEY="", OPENAI_BASE_URL="")
    assert finished.code == 2
    assert "OpenAI needs a key for the model gpt-4o, but none is set: " in finished.stderr
    assert "set the environment variable OPENAI_API_KEY" in finished.stderr


def test_a_refused_key_is_an_error_of_the_cases_and_shown_nowhere(project: Project) -> None:
    with FakeModels(keys=["another-key-than-that"]) as models:
        cases = [{"name": f"case {n}", "input": f"say {n}", "ground_truth": "x"} for n in range(3)]
        asking(project, models, cases)
        finished, record = project.evaluate("--record", "tape", OPENAI_API_KEY=KEY)
        assert finished.code == 3, finished.stdout + finished.stderr
        assert {*models.statuses} == {401}
    errors = [case.trials[0].turns[0].error for case in record.cases]
    assert [error and error.code for error in errors] == ["authentication"] * 3
    assert_hidden(project, finished)


# -- record, replay, cache


def report(project: Project, folder: str) -> str:
    finished = project.run("report", f"{folder}/results.json", "--canonical", "--format", "json")
    assert finished.code == 0, finished.stderr
    return finished.stdout


def recorded(project: Project, *arguments: str) -> tuple[int, str]:
    """Record a run of a conversation and a case with a tool; return its exit code and its canonical report."""
    with FakeModels(keys=[KEY]) as models:
        cases: list[dict[str, Any]] = [
            {"name": "order", "input": "Where is A-17?", "ground_truth": "Leeds", "expected_tools": ["find_order"]},
            {"name": "talk", "turns": [{"input": "a", "ground_truth": "a"}, {"input": "b", "ground_truth": "wrong"}]},
        ]
        project.write("shop.py", SHOP)
        asking(project, models, cases, tools=[function("find_order")])
        models.answer(shopkeeper)
        finished = project.run("run", "-o", "first", "--repeat", "2", *arguments, OPENAI_API_KEY=KEY)
        assert finished.code == 1, finished.stdout + finished.stderr
        assert_hidden(project, finished)
    return finished.code, report(project, "first")


def shopkeeper(request: Request) -> Answer:
    if "A-17" in request.text:
        return Answer("Leeds") if request.results else calling("find_order", order="A-17")
    return Answer(request.text)


@pytest.mark.full
@pytest.mark.proves("run: --record --replay")
def test_a_replay_needs_no_server_and_no_key_and_reports_the_same_bytes(project: Project) -> None:
    code, before = recorded(project, "--record", "tape")
    tape = files_below(project.folder / "tape")
    # One trial with a tool, and two of a conversation that fails.
    assert len(tape["cassette.jsonl"].splitlines()) == 2 + 2 * 2
    replayed = project.run("run", "-o", "second", "--repeat", "2", "--replay", "tape", OPENAI_API_KEY="")
    assert replayed.code == code, replayed.stdout + replayed.stderr
    assert report(project, "second") == before
    assert files_below(project.folder / "tape") == tape


@pytest.mark.proves("Instructions: inline")
def test_a_changed_instruction_is_missed_by_the_replay(project: Project) -> None:
    recorded(project, "--record", "tape")
    text = (project.folder / "agent.yaml").read_text()
    project.write("agent.yaml", text.replace(INSTRUCTIONS, INSTRUCTIONS.replace("shop", "ship")))
    finished, record = project.evaluate("--replay", "tape")
    assert finished.code == 3, finished.stdout + finished.stderr
    errors = [case.trials[0].turns[0].error for case in record.cases]
    assert [error and error.code for error in errors] == ["cassette_miss"] * 2
    for error in errors:
        assert error is not None
        assert "no recorded answer for this call in " in error.message
        assert "'You answer customers of a shop.' → 'You answer customers of a ship.'" in error.message


@pytest.mark.proves("run: --cache")
def test_what_is_cached_is_not_asked_again(project: Project, models: FakeModels) -> None:
    asking(project, models)
    first = project.run("run", "-o", "out", "--cache", "kept", OPENAI_API_KEY=KEY)
    asked = len(models.requests)
    second = project.run("run", "-o", "out", "--cache", "kept", OPENAI_API_KEY=KEY)
    assert (first.code, second.code) == (0, 0), first.stderr + second.stderr
    assert (asked, len(models.requests)) == (1, 1)
    # What is not there is asked.
    asking(project, models, [{"name": "other", "input": "pong", "ground_truth": "echo: pong"}])
    assert project.run("run", "--cache", "kept", OPENAI_API_KEY=KEY).code == 0
    assert len(models.requests) == 2
    assert_hidden(project, first, second)


def test_a_refusal_of_the_provider_is_not_cached(project: Project, models: FakeModels) -> None:
    asking(project, models)
    models.fail(Fault(error="context_length"))
    assert project.run("run", "--cache", "kept", OPENAI_API_KEY=KEY).code == 3
    assert project.run("run", "--cache", "kept", OPENAI_API_KEY=KEY).code == 0
    assert len(models.requests) == 2


@pytest.mark.proves("Policy: cache", "CacheSettings: mode dir")
@pytest.mark.parametrize("mode", ["record", "replay", "cache"])
def test_the_policy_file_says_how_calls_are_made(project: Project, mode: str) -> None:
    # The folder starts at the suite's, wherever the program is started.
    inner = Project(project.folder / "inner")
    inner.folder.mkdir()
    with FakeModels(keys=[KEY]) as models:
        asking(inner, models)
        inner.policy(cache={"mode": "record" if mode == "replay" else mode, "dir": "kept", "ttl_days": 1})
        assert project.run("run", "inner/agent.yaml", OPENAI_API_KEY=KEY).code == 0
        assert len(models.requests) == 1
        assert len(files_below(inner.folder / "kept")) == 1
        inner.policy(cache={"mode": mode, "dir": "kept"})
        again = project.run("run", "inner/agent.yaml", OPENAI_API_KEY="" if mode == "replay" else KEY)
        assert again.code == 0, again.stdout + again.stderr
        assert len(models.requests) == (2 if mode == "record" else 1)


@pytest.mark.proves("CacheSettings: ttl_days")
def test_an_old_answer_is_asked_again(project: Project, models: FakeModels) -> None:
    asking(project, models)
    project.policy(cache={"mode": "cache", "dir": "kept", "ttl_days": 2})
    assert project.run("run", OPENAI_API_KEY=KEY).code == 0
    (entry,) = (project.folder / "kept").iterdir()
    document = json.loads(entry.read_bytes())
    # Younger than what is kept by default.
    three_days_ago = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    entry.write_text(json.dumps({**document, "recorded_at": three_days_ago}))
    assert project.run("run", OPENAI_API_KEY=KEY).code == 0
    assert len(models.requests) == 2


def test_a_flag_wins_over_the_policy_files_mode(project: Project, models: FakeModels) -> None:
    asking(project, models)
    project.policy(cache={"mode": "replay", "dir": "nothing-here"})
    assert project.run("run", "--record", "tape", OPENAI_API_KEY=KEY).code == 0
    assert (len(models.requests), os.listdir(project.folder / "tape") != []) == (1, True)


@pytest.mark.parametrize("other", ["--record", "--cache"])
def test_a_replay_neither_records_nor_caches(project: Project, models: FakeModels, other: str) -> None:
    asking(project, models)
    finished = project.run("run", "--replay", "tape", other, "tape", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "--replay answers only from its folder; leave out --record and --cache" in finished.stderr
    assert models.requests == []


# -- metrics that a model grades


@pytest.mark.needs
def test_a_metric_that_a_model_grades_is_graded_by_the_suites_own(project: Project, models: FakeModels) -> None:
    steps = ["Read it."]
    metric = {"type": "geval", "name": "Tone", "criteria": "polite", "evaluation_steps": steps, "threshold": 0.7}
    project.policy(metrics=[metric])
    asking(project, models)
    verdict = Answer('{"reason": "it says please", "score": 8}', alternatives={"8": {"8": 0.75, "4": 0.25}})
    models.script(["echo: ping", verdict])
    finished, record = project.evaluate(OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    tone = next(found for found in record.cases[0].trials[0].turns[0].evaluations if found.evaluator_name == "Tone")
    assert tone.score == pytest.approx(0.7)
    assert tone.explanation == "it says please"
    assert tone.metadata["judge"] == "openai/gpt-4o"
    assert tone.cost_usd is not None
    assert record.run.model_calls is not None
    assert record.run.model_calls.calls == 2
    assert_hidden(project, finished)


@pytest.mark.full
def test_a_run_needs_no_package_of_a_provider(project: Project, models: FakeModels) -> None:
    asking(project, models, [{"name": "order", "input": "ping", "ground_truth": "echo: ping"}])
    code = (
        "import sys; sys.modules.update(dict.fromkeys(('openai', 'anthropic', 'pydantic_ai', 'ollama', 'mcp'))); "
        "from holodeck_action.cli import start; start()"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, "run"],
        cwd=project.folder,
        env=project.environ(OPENAI_API_KEY=KEY),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [request.text for request in models.requests] == ["ping"]
