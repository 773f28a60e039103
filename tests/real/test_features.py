"""What compares, plays and judges, with the real model in every role.

The model is too weak for its scores to mean anything: what is asserted holds for any model.
"""

from __future__ import annotations

import json

import pytest

from tests.commands.project import Project
from tests.real.runs import ANY_ANSWER, CAPITALS, LONGEST_MS, PATIENT, calls_of, check_replay
from tests.real.server import Server

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


def test_a_race_of_two_instructions_counts_every_answer_of_both(project: Project, server: Server) -> None:
    project.suite(CAPITALS, [{"type": "contains", "value": "Paris"}], model=server.model())
    project.write("short.md", "Answer with one word.")
    project.write("long.md", "You are a teacher. Answer in a whole sentence.")
    before = sum(server.tokens())
    ended = project.run("race", "-o", "out", "--vary", "instructions=short.md", "--vary", "instructions=long.md")
    assert ended.code == 0, ended.stdout + ended.stderr
    outcome = json.loads((project.out / "race.json").read_bytes())
    assert outcome["outcome"] in ("leader", "equal")
    assert [(each["cases"], each["errors"], each["unknown"]) for each in outcome["variants"]] == [(2, 0, 0)] * 2
    assert all(each["value"] in (0, 0.5, 1) for each in outcome["variants"])
    calls = [each["run"]["model_calls"] for each in outcome["variants"]]
    assert [each["requests"] for each in calls] == [2, 2]
    assert sum(each["tokens"] for each in calls) == sum(server.tokens()) - before


def test_a_simulated_user_talks_to_an_agent_on_another_wire(project: Project, server: Server) -> None:
    simulate = {
        "goal": "Learn what the capital of France is.",
        "opening": "Hello, I have a question about a country.",
        "max_turns": 2,
        "model": server.model(max_tokens=60),
    }
    project.suite([{"name": "curious", "simulate": simulate}], [ANY_ANSWER], model=server.model("messages"))
    finished, record = project.evaluate("--record", "tape")
    (trial,) = record.cases[0].trials
    assert trial.turns[0].input == simulate["opening"]
    assert trial.turns[0].response
    assert trial.user is not None
    assert calls_of(record).calls == trial.user.calls + len(trial.turns)
    if trial.error is None and trial.turns[-1].error is None:
        assert finished.code == 0, finished.stdout
        assert trial.user.ended
    else:
        # The model may write nothing that can be sent; that is no fault of the agent.
        assert finished.code == 3, finished.stdout
        assert "the simulated user failed" in finished.stdout
        assert all(each.score is None for each in record.evaluations)
    check_replay(project)


def test_a_judge_prefers_one_of_two_answers_or_none(project: Project, server: Server) -> None:
    project.suite(CAPITALS[:1], [ANY_ANSWER], model=server.model())
    assert project.run("run", "-o", "base").code == 0
    preference = {"type": "preference", "model": server.model(max_tokens=80), "timeout_ms": LONGEST_MS}
    poet = {"inline": "You are a poet and like rhymes."}
    project.suite(CAPITALS[:1], [ANY_ANSWER, preference], model=server.model(), instructions=poet)
    finished, record = project.evaluate("--baseline", "file:base")
    (found,) = project.verdict()["comparison"]["preferences"]
    assert found["pairs"] + found["missing"] == 1
    assert found["wins"] + found["ties"] + found["losses"] == found["pairs"]
    assert finished.code == (3 if found["missing"] else 0), finished.stdout
    # One answer, and both orders; equal answers need no judge, and an unusable verdict is asked for once more.
    assert calls_of(record).calls == 1 if found["identical"] else 3 <= calls_of(record).calls <= 5


def test_a_case_that_got_worse_is_confirmed_by_more_answers(project: Project, server: Server) -> None:
    project.suite([{**CAPITALS[0], "ground_truth": "no model says this"}], model=server.model())
    project.answers([{"case": "France", "response": "no model says this"}])
    assert project.run("run", "-o", "base", "--target", "recorded:answers.jsonl").code == 0
    project.policy(baseline={"source": "file:base", "confirm": {"trials": 2}}, limits=PATIENT)
    finished, record = project.evaluate()
    assert finished.code == 1, finished.stdout + finished.stderr
    texts = [turn.response for trial in record.cases[0].all_trials for turn in trial.turns]
    assert (len(texts), len({*texts})) == (3, 1)
    assert calls_of(record).calls == 3
    assert [case["title"] for case in project.verdict()["comparison"]["regressed"]] == ["France"]


def test_a_panel_of_two_wires_gives_a_score_in_range_or_an_error(project: Project, server: Server) -> None:
    judges = [server.model(wire, max_tokens=60) for wire in ("chat", "messages")]
    polite = {"type": "geval", "name": "Polite", "criteria": "Is the answer polite?", "evaluation_steps": ["Read it."]}
    project.suite(
        CAPITALS[:1], [{**polite, "judges": {"models": judges}, "timeout_ms": LONGEST_MS}], model=server.model()
    )
    finished, record = project.evaluate("--record", "tape")
    (evaluation,) = record.evaluations
    verdicts = (evaluation.metadata if evaluation.error is None else evaluation.error.context)["verdicts"]
    assert [each["model"] for each in verdicts] == ["openai/smollm2", "anthropic/smollm2"]
    for each in verdicts:
        assert (each["score"] is None) == (each.get("error") is not None)
        assert each["score"] is None or 0 <= each["score"] <= 1
    assert (evaluation.score is None) == all(each["score"] is None for each in verdicts)
    assert (finished.code == 3) == (evaluation.score is None), finished.stdout
    # The answer, and each judge once or twice.
    assert 3 <= calls_of(record).calls <= 5
    check_replay(project)


def test_a_judge_is_examined_before_it_grades(project: Project, server: Server) -> None:
    refusal = {"type": "refusal", "model": server.model(max_tokens=60), "timeout_ms": LONGEST_MS}
    project.suite(CAPITALS[:1], [refusal], model=server.model())
    finished, record = project.evaluate(HOLODECK_JUDGE_PROBE="always")
    (probe,) = record.probes
    (evaluation,) = record.evaluations
    assert probe.judge == "openai/smollm2"
    assert probe.attempts in (1, 2)
    if probe.passed:
        assert (evaluation.error is None) == (evaluation.score in (0, 1))
    else:
        assert evaluation.error is not None
        assert (finished.code, evaluation.score, evaluation.error.code) == (3, None, probe.code)
        # Both answers twice, each asked for once more if it is unusable, and the agent's: no case is graded.
        assert 5 <= calls_of(record).calls <= 9


def test_embeddings_of_equal_texts_have_the_cosine_one(project: Project, server: Server) -> None:
    similar = {"type": "similar", "embedding_model": "smollm2", "threshold": 0.9999, "timeout_ms": LONGEST_MS}
    truths = {"same": "A cat sat on the mat.", "other": "Prices rise in May."}
    cases = [{"name": name, "input": "?", "ground_truth": truth} for name, truth in truths.items()]
    project.suite(cases, [similar], model=server.model())
    project.answers([{"case": name, "response": truths["same"]} for name in truths])
    project.policy(target="recorded:answers.jsonl", limits=PATIENT)
    before = server.tokens()
    finished, record = project.evaluate("--record", "tape")
    same, other = record.evaluations
    assert finished.code == 1, finished.stdout
    assert same.score == 1
    assert isinstance(other.score, float)
    assert 0 <= other.score < 0.9999
    assert same.metadata["dimensions"] == other.metadata["dimensions"] > 1
    assert calls_of(record).calls == 2
    assert server.tokens()[1] == before[1]
    check_replay(project)
