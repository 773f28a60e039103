"""`run --target traces:PATH`: conversations that happened are judged, and no agent is called."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Project
from tests.extensions.traces.spans import exchange, openinference, request, span

CHECK = {"type": "contains", "value": "Leeds"}
LIMIT = {"type": "response_length", "max_words": 50}


def trace(number: int) -> str:
    return f"{number:032x}"


def night(project: Project, *traces: Iterable[Mapping[str, Any]], name: str = "night.jsonl") -> None:
    project.write(name, "".join(f"{json.dumps(request(each))}\n" for each in traces))


def outcomes(project: Project) -> list[str]:
    return [case["outcome"] for case in project.verdict()["cases"]]


def recorded(project: Project) -> Record:
    return read_record(project.out / "results.json")


def suite(project: Project, *metrics: dict[str, Any], **top: Any) -> None:
    project.suite([{"name": "asked by hand", "input": "Hi", "ground_truth": "Hello"}], list(metrics), **top)


def test_conversations_that_happened_are_judged(project: Project) -> None:
    night(
        project,
        exchange(trace(1), "Where is A-17?", "In Leeds.", session="s-1", tool="find_order"),
        exchange(trace(2), "And when?", "Tomorrow.", session="s-1", at=60),
        openinference(trace(3), "Where are you?", "In Leeds ${PATH}.", session="s-2", at=9),
    )
    suite(project, CHECK)
    # What the policy file sets for the suite's own cases does not concern them.
    project.policy(target="recorded:none.jsonl", cases={"asked by hand": {"tags": ["x"]}})

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    record = recorded(project)
    assert done.code == 1, done.stderr
    assert record.provenance.target == "traces:night.jsonl"
    one, two = record.cases
    assert (one.id, two.id, two.tags) == ("s-1", "s-2", ("beta", "vip"))
    asked, again = one.trials[0].turns
    assert (asked.input, asked.response) == ("Where is A-17?", "In Leeds.")
    assert [(call.name, call.result) for call in asked.tool_invocations or ()] == [("find_order", {"place": "Leeds"})]
    assert asked.usage is not None
    assert (asked.usage.prompt_tokens, asked.usage.models) == (200, ())
    assert asked.timing is not None
    assert asked.timing.model_ms == 1000.0
    # No call was made; whether documents were retrieved is unknown.
    assert (again.tool_invocations, again.retrieved_chunks) == ((), None)
    # Text of a trace is no template.
    assert two.trials[0].turns[0].response == "In Leeds ${PATH}."
    assert [chunk.id for chunk in two.trials[0].turns[0].retrieved_chunks or ()] == ["d1"]
    assert outcomes(project) == ["failed", "passed"]
    assert "2 conversations of traces in place of the suite's cases" in done.stderr + done.stdout


@pytest.mark.parametrize("metric", ["equality", "tools", "chunks"])
def test_a_metric_that_needs_an_expected_answer_is_refused_at_its_line(project: Project, metric: str) -> None:
    refused: dict[str, tuple[dict[str, Any], str]] = {
        "equality": ({"type": "standard", "metric": "equality"}, "ground_truth"),
        "tools": ({"type": "tool_correctness"}, "expected_tools"),
        "chunks": ({"type": "retrieval", "metric": "recall_at_k", "k": [3]}, "ground_truth_chunk_ids"),
    }
    wanted, missing = refused[metric]
    night(project, exchange(trace(1), "Where?", "In Leeds."))
    suite(project, CHECK, wanted)

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 2
    (error,) = done.errors
    assert error.startswith("agent.yaml:")
    assert f"evaluations.metrics[1]: needs {missing}" in error
    assert not (project.out / "results.json").exists()


def test_what_a_trace_does_not_contain_is_an_error_of_its_case_alone(project: Project) -> None:
    silent = [span(trace(2), 1, 0, "chat", 1, {"gen_ai.operation.name": "chat"})]
    failed = {
        **span(trace(3), 1, 0, "invoke_agent", 2, {"gen_ai.operation.name": "invoke_agent"}),
        "status": {"code": 2, "message": "no quota"},
    }
    night(project, exchange(trace(1), "Where?", "In Leeds."), silent, [failed, *exchange(trace(3), "And?", "…")[1:]])
    suite(project, CHECK)

    done = project.run("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl")

    assert done.code == 3
    assert outcomes(project) == ["passed", "error", "error"]
    messages = [case.trials[0].turns[0].error for case in recorded(project).cases[1:]]
    assert [str(message and message.message).partition(": ")[2] for message in messages] == [
        "the trace holds no text of the user's message; configure the program to record texts, such as with "
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT",
        "no quota",
    ]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--target", "traces:missing.jsonl"], "--target: traces missing.jsonl: there is no such file or folder"),
        (["--target", "traces:"], "--target: traces: needs the path of a file or a folder"),
        (["--target", "traces:plain.jsonl"], "expected spans of a model or an agent, found 1 trace without them"),
        (["--target", "traces:broken.jsonl"], "expected spans of a model or an agent, found no spans; broken.jsonl"),
        (["--sample", "3", "--target", "recorded:a.jsonl"], "--sample chooses conversations of --target traces:PATH"),
        (["--sample-by", "model", "--target", "traces:plain.jsonl"], "--sample-by belongs to --sample"),
        (["--sample", "0", "--target", "traces:plain.jsonl"], "--sample"),
        (["--sample", "3", "--sample-by", "size", "--target", "traces:plain.jsonl"], "--sample-by"),
    ],
)  # fmt: skip
def test_what_cannot_be_judged_is_refused(project: Project, arguments: list[str], words: str) -> None:
    night(project, [span(trace(1), 1, 0, "GET /", 0, {"http.method": "GET"})], name="plain.jsonl")
    project.write("broken.jsonl", "{]")
    suite(project, CHECK)

    done = project.run("run", "agent.yaml", "-o", "out", *arguments)

    assert done.code == 2
    assert words in done.stderr


def test_a_file_of_the_suite_cannot_name_traces(project: Project) -> None:
    suite(project, CHECK)
    project.policy(target="traces:night.jsonl")

    done = project.run("validate", "agent.yaml")

    assert done.code == 2
    assert "traces: takes what happened outside of the suite, so only --target of `run` can name it" in done.stderr


@pytest.mark.full
@pytest.mark.proves("run: --sample --sample-by --sample-seed")
def test_a_sample_is_stratified_and_its_weights_estimate_the_whole(project: Project) -> None:
    # One in ten conversations is with the second model, which is always wrong.
    models = ["gpt-4o" if number % 10 else "gpt-4o-mini" for number in range(200)]
    night(
        project,
        *(
            exchange(trace(n + 1), "Where?", "In Leeds." if model == "gpt-4o" else "No.", at=n, model=model)
            for n, model in enumerate(models)
        ),
    )
    suite(project, CHECK)
    project.policy(gates={"min_pass_rate": 0.5})
    command = ("run", "agent.yaml", "-o", "out", "--target", "traces:night.jsonl", "--sample", "40")

    done = project.run(*command, "--sample-by", "model")
    assert done.code == 0, done.stderr
    record, verdict = recorded(project), project.verdict()

    assert done.code == 0, done.stderr
    assert len(record.cases) == 40
    wrong = [case for case in record.cases if (case.trials[0].turns[0].model or "").endswith("mini")]
    # Equally divided 20, and 2 in proportion to its size.
    assert len(wrong) == 12
    assert {round(case.weight, 6) for case in wrong} == {round(20 / 12 / 5, 6)}
    assert verdict["pass_rate"] == pytest.approx(0.9)
    assert "a sample of 40 of 200 conversations of traces, stratified by model" in done.stdout + done.stderr

    def drawn(*more: str) -> list[str]:
        assert project.run(*command, *more).code == 0
        return [case.id for case in recorded(project).cases]

    assert drawn("--sample-by", "model") == [case.id for case in record.cases]
    assert drawn() == drawn()
    assert drawn() != drawn("--sample-seed", "2")
    assert {case.weight for case in recorded(project).cases} == {1.0}
