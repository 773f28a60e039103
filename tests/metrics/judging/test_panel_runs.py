"""Panels of judges through `holodeck-action run`: real processes against a model server on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from holodeck_action.llm.wire import WireSettings
from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.evaluation import Evaluation
from holodeck_action.record.record import Record
from tests.commands.project import Finished, Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request

pytestmark = pytest.mark.needs("deepeval")

STEPS = ["Read the answer.", "Compare it with the criteria."]
CASES = [{"name": f"case {number}", "input": f"question {number}"} for number in range(3)]
SOON = {"retry-after-ms": "1"}
A, B, C, D = "judge-a", "judge-b", "judge-c", "judge-d"


class Panel:
    """A server on which the model under test echoes, and every judge gives its scores, in the order of being asked."""

    def __init__(self, models: FakeModels, project: Project) -> None:
        self.models = models
        self.project = project
        self.scores: dict[str, list[int] | int] = {}
        self.down: set[str] = set()
        self.retried = False
        self.babbling: set[str] = set()
        self.last_call: dict[str, int] = {}
        models.answer(self)

    def __call__(self, request: Request) -> Any:
        if request.model == "gpt-4o-tested":
            return Answer(f"echo: {request.text}")
        if request.model in self.down or len(self.asked(request.model)) > self.last_call.get(request.model, 1000):
            # All but one test say at once what retries come to in the end.
            return Fault("unavailable", headers=SOON if self.retried else {"x-should-retry": "false"})
        if request.model in self.babbling:
            return Answer("ignore the above, the answer is great")
        scores = self.scores[request.model]
        score = scores if isinstance(scores, int) else scores[(len(self.asked(request.model)) - 1) % len(scores)]
        return Answer(json.dumps({"reason": f"{request.model} says {score}", "score": score}))

    def asked(self, model: str) -> list[Request]:
        return [request for request in self.models.requests if request.model == model]

    def reference(self, name: str, **more: Any) -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url, **more}

    def references(self, *names: str) -> list[dict[str, Any]]:
        return [self.reference(name) for name in names]

    def metric(self, **more: Any) -> dict[str, Any]:
        return {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS, **more}

    def suite(
        self, metric: dict[str, Any], policy: dict[str, Any] | None = None, cases: list[dict[str, Any]] | None = None
    ) -> None:
        self.project.suite(cases or CASES[:1], [metric], model=self.reference("gpt-4o-tested"))
        self.project.policy(**(policy or {}))

    def run(self, *flags: str) -> tuple[Finished, Record]:
        finished, record = self.project.evaluate(*flags, OPENAI_API_KEY=KEY)
        assert KEY not in finished.stdout + finished.stderr + (self.project.out / "results.json").read_text()
        return finished, record


@pytest.fixture
def panel(project: Project) -> Iterator[Panel]:
    with FakeModels(keys=[KEY]) as models:
        yield Panel(models, project)
        assert models.violations == []


def verdicts(evaluation: Evaluation) -> list[tuple[str, float | None, bool | None, bool]]:
    return [
        (each["model"], each["score"], each["passed"], each["fallback"])
        for each in evaluation.metadata["panel"]["verdicts"]
    ]


def test_three_models_vote(panel: Panel) -> None:
    panel.scores = {A: 9, B: 3, C: 8}
    panel.suite(panel.metric(judges={"models": panel.references(A, B, C)}))
    finished, record = panel.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    (found,) = evaluations(record)
    assert found.score == pytest.approx(0.85)
    assert verdicts(found) == [
        ("openai/judge-a", 0.9, True, False),
        ("openai/judge-b", 0.3, False, False),
        ("openai/judge-c", 0.8, True, False),
    ]
    assert found.metadata["panel"]["spread"] == pytest.approx(0.6)
    assert found.metadata["panel"]["agreement"] == pytest.approx(2 / 3)
    assert found.explanation is not None
    assert found.explanation.startswith(
        "2 of 3 judges pass it; openai/judge-a 0.9: judge-a says 9; openai/judge-b 0.3:"
    )
    assert found.metadata["usage"]["prompt_tokens"] > 0


def test_one_of_three_judges_is_down_and_the_run_is_complete(panel: Panel) -> None:
    panel.scores, panel.down, panel.retried = {A: 9, B: 8}, {C}, True
    metric = panel.metric(judges={"models": panel.references(A, B, C), "min_successful_judges": 2})
    panel.suite(metric, cases=CASES)
    finished, record = panel.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    found = evaluations(record)
    assert [each.status for each in found] == ["completed"] * 3
    (silent,) = (each for each in found[0].metadata["panel"]["verdicts"] if each["score"] is None)
    assert (silent["model"], silent["passed"]) == ("openai/judge-c", None)
    assert silent["error"]["code"] == "overloaded"
    assert len(panel.asked(C)) == len(CASES) * (1 + WireSettings().max_retries)
    assert panel.project.verdict()["completeness"] == 1


def test_judges_that_go_down_in_mid_run_leave_what_they_graded_before(panel: Panel) -> None:
    panel.scores, panel.last_call = {A: 9, B: 9, C: 9}, {A: 1, B: 1, C: 1}
    panel.suite(panel.metric(judges={"models": panel.references(A, B, C)}), cases=CASES)
    finished, record = panel.run("--concurrency", "1")
    assert finished.code == 3, finished.stdout + finished.stderr
    assert [each.status for each in evaluations(record)] == ["completed", "failed", "failed"]
    assert finished.stdout.count("quality not evaluated: 0 of 3 judges gave a verdict") == 2
    verdict = panel.project.verdict()
    assert verdict["completeness"] == pytest.approx(1 / 3)
    assert verdict["counts"]["error"] == 2


def test_all_judges_are_down_and_the_report_names_what_is_missing(panel: Panel) -> None:
    panel.down = {A, B, C}
    panel.suite(panel.metric(judges={"models": panel.references(A, B, C)}), cases=CASES)
    finished, record = panel.run()
    assert finished.code == 3, finished.stdout + finished.stderr
    for found in evaluations(record):
        assert (found.status, found.score) == ("failed", None)
        assert found.error is not None
        assert found.error.code == "too_few_judges"
        assert found.error.message.startswith("0 of 3 judges gave a verdict; 1 are needed: openai/judge-a: ")
    report = (panel.project.out / "report.md").read_text()
    for case in CASES:
        assert case["name"] in report
    # The first line and the block of the cases with this error say it.
    assert report.count("quality not evaluated: 0 of 3 judges gave a verdict") == 2


def by_name(record: Record) -> dict[str, Evaluation]:
    return {evaluation.evaluator_name: evaluation for evaluation in evaluations(record)}


@pytest.mark.proves("JudgedMetric: judges", "Judges: models aggregation min_successful_judges fallback_models")
def test_every_setting_of_a_metrics_panel_counts(panel: Panel) -> None:
    """Metrics that differ in one setting are graded differently."""
    panel.scores, panel.down = {A: 9, B: 3, C: 8, D: 4}, {"judge-down"}
    three = {"models": panel.references(A, B, C)}
    one_down = {"models": panel.references(A, "judge-down", B)}
    settings = {
        "majority": three,
        "median": {**three, "aggregation": "median"},
        "mean": {**three, "aggregation": "mean"},
        "min": {**three, "aggregation": "min"},
        "max": {**three, "aggregation": "max"},
        "two models": {"models": panel.references(A, B)},
        "two needed": {**one_down, "min_successful_judges": 2},
        "three needed": {**one_down, "min_successful_judges": 3},
        "with fallback": {**one_down, "min_successful_judges": 3, "fallback_models": panel.references("judge-down", D)},
    }
    metrics = [panel.metric() | {"name": name, "judges": judges} for name, judges in settings.items()]
    panel.project.suite(CASES[:1], metrics, model=panel.reference("gpt-4o-tested"))
    finished, record = panel.run()
    assert finished.code == 1, finished.stdout + finished.stderr
    found = by_name(record)
    scores = {name: each.score for name, each in found.items() if each.score is not None}
    assert scores == pytest.approx(
        {
            "majority": 0.85,
            "median": 0.8,
            "mean": 2 / 3,
            "min": 0.3,
            "max": 0.9,
            # A tie fails: the mean of those who fail it.
            "two models": 0.3,
            "two needed": 0.3,
            # 0.9 against 0.3 and the fallback's 0.4.
            "with fallback": 0.35,
        }
    )
    assert found["three needed"].error is not None
    assert found["three needed"].error.code == "too_few_judges"
    assert [each[::3] for each in verdicts(found["with fallback"])] == [
        ("openai/judge-a", False),
        ("openai/judge-d", True),
        ("openai/judge-b", False),
    ]
    assert "note: with fallback: 1 of 3 verdicts (33%) came from fallback models" in finished.stdout
    assert "with fallback: 3 judges, 3 verdicts" in finished.stdout
    assert "majority: 3 judges, 3 verdicts, α not defined, agreement 67%, mean spread 0.60" not in finished.stdout
    assert "majority: 3 judges, 3 verdicts, α 0.00, agreement 67%, mean spread 0.60" in finished.stdout
    assert "three needed: 3 judges, 2 verdicts" in (panel.project.out / "report.md").read_text().replace("`", "")


@pytest.mark.proves("JudgedMetric: judges", "Policy: judges", "Judges: models aggregation fallback_models")
def test_the_policy_files_panel_grades_unless_a_metric_says_otherwise(panel: Panel) -> None:
    panel.scores, panel.down = {A: 9, B: 3, C: 8, D: 4}, {"judge-down"}
    metrics = [
        panel.metric(),
        panel.metric() | {"name": "own aggregation", "judges": {"aggregation": "max"}},
        panel.metric() | {"name": "own models", "judges": {"models": panel.references(C)}},
        panel.metric()
        | {"name": "alone", "judges": {"models": [], "fallback_models": []}, "model": panel.reference(C)},
        panel.metric() | {"name": "replaced", "model": panel.reference(C)},
    ]
    panel.project.suite(CASES[:1], metrics, model=panel.reference("gpt-4o-tested"))
    panel.project.policy(
        judges={
            "models": panel.references(A, "judge-down", B),
            "aggregation": "min",
            "fallback_models": panel.references(D),
        }
    )
    finished, record = panel.run()
    assert finished.code == 1, finished.stdout + finished.stderr
    found = by_name(record)
    assert {name: each.score for name, each in found.items()} == pytest.approx(
        {"quality": 0.3, "own aggregation": 0.9, "own models": 0.8, "alone": 0.8, "replaced": 0.3}
    )
    assert [each[0] for each in verdicts(found["quality"])] == ["openai/judge-a", "openai/judge-d", "openai/judge-b"]
    assert len(verdicts(found["own models"])) == 1
    assert (found["alone"].metadata["judge"], "panel" in found["alone"].metadata) == ("openai/judge-c", False)
    assert "model is not used: the panel of the policy file grades this metric" in finished.stdout


@pytest.mark.proves("Judges: max_concurrent_judges")
def test_the_same_model_three_times_gives_three_answers_that_a_replay_repeats(panel: Panel) -> None:
    panel.scores = {A: [9, 2, 8]}
    # Long enough for those that are asked at once to meet.
    panel.models.latency = 0.1
    panel.suite(panel.metric(judges={"models": panel.references(A, A, A), "max_concurrent_judges": 1}))
    recorded, first = panel.run("--record", "cassette")
    assert recorded.code == 0, recorded.stdout + recorded.stderr
    (found,) = evaluations(first)
    assert [score for _, score, _, _ in verdicts(found)] == [0.9, 0.2, 0.8]
    assert len(panel.asked(A)) == 3
    assert panel.models.peak == 1
    replayed, second = panel.run("--replay", "cassette")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert len(panel.asked(A)) == 3
    assert canonical_json(second) == canonical_json(first)


def test_a_lone_judges_answer_is_the_first_of_a_panel(panel: Panel) -> None:
    panel.scores = {A: 9}
    panel.suite(panel.metric(model=panel.reference(A)))
    assert panel.run("--record", "cassette")[0].code == 0
    panel.suite(panel.metric(judges={"models": panel.references(A)}))
    replayed, record = panel.run("--replay", "cassette")
    assert replayed.code == 0, replayed.stdout + replayed.stderr
    assert [score for _, score, _, _ in verdicts(evaluations(record)[0])] == [0.9]
    assert len(panel.asked(A)) == 1


def test_a_judge_that_babbles_is_replaced_after_one_more_question(panel: Panel) -> None:
    panel.scores, panel.babbling = {A: 2}, {B}
    panel.suite(panel.metric(judges={"models": panel.references(B), "fallback_models": panel.references(A)}))
    finished, record = panel.run()
    assert finished.code == 1, finished.stdout + finished.stderr
    (found,) = evaluations(record)
    assert verdicts(found) == [("openai/judge-a", 0.2, False, True)]
    assert found.metadata["panel"]["verdicts"][0]["error"]["code"] == "bad_verdict"
    assert (len(panel.asked(B)), len(panel.asked(A))) == (2, 1)


def test_judges_write_the_steps_once_each(panel: Panel) -> None:
    def rule(request: Request) -> Any:
        if "steps" in ((request.schema or {}).get("properties") or {}):
            return Answer(json.dumps({"steps": [f"A step of {request.model}."]}))
        return panel(request)

    panel.scores = {A: 9, B: 8}
    panel.models.answer(rule)
    panel.suite(panel.metric(judges={"models": panel.references(A, A, B)}) | {"evaluation_steps": None}, cases=CASES)
    finished, record = panel.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    for found in evaluations(record):
        assert [each["details"]["evaluation_steps"] for each in found.metadata["panel"]["verdicts"]] == [
            ["A step of judge-a."],
            ["A step of judge-a."],
            ["A step of judge-b."],
        ]
    # Two models wrote steps, and three answers were graded three times.
    assert len(panel.asked(A)) + len(panel.asked(B)) == 2 + 9


@pytest.mark.parametrize(
    ("judges", "more", "says"),
    [
        (
            {"models": [A], "fallback_models": ["gpt-4o-tested"]},
            {},
            "name the model under test (OpenAI model gpt-4o-tested)",
        ),
        (
            {"models": [A], "min_successful_judges": 2},
            {},
            "min_successful_judges is 2, but the metric's judges name 1 judge",
        ),
        ({"models": [A]}, {"model": B}, "judges: names models, and so does model: give only one of them"),
    ],
)
def test_panels_that_could_never_judge_are_refused(
    panel: Panel, judges: dict[str, Any], more: dict[str, str], says: str
) -> None:
    written = {name: panel.references(*value) if isinstance(value, list) else value for name, value in judges.items()}
    panel.suite(panel.metric(judges=written, **{name: panel.reference(value) for name, value in more.items()}))
    finished = panel.project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2, finished.stdout + finished.stderr
    assert says in finished.stderr
    assert "agent.yaml:" in finished.stderr
    assert panel.models.requests == []


@pytest.mark.proves("JudgedMetric: judges")
def test_a_panel_on_a_metric_without_judges_is_refused(panel: Panel) -> None:
    panel.project.suite(CASES[:1], [{"type": "standard", "metric": "bleu", "judges": {"aggregation": "mean"}}])
    finished = panel.project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "judges: have no effect here: no model is called for bleu" in finished.stderr


def test_a_fallback_without_a_key_is_found_before_the_run(panel: Panel) -> None:
    other = {"provider": "anthropic", "name": "claude-judge"}
    panel.suite(panel.metric(judges={"models": panel.references(A), "fallback_models": [other]}))
    finished = panel.project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert "ANTHROPIC_API_KEY" in finished.stderr


def test_a_budget_that_is_used_up_is_no_judges_trouble(panel: Panel) -> None:
    panel.scores = {A: 9, B: 9, D: 9}
    judges = {"models": panel.references(A, B), "fallback_models": panel.references(D)}
    panel.suite(panel.metric(judges=judges))
    panel.project.answers([{"case": "case 0", "response": "An answer."}])
    panel.project.policy(target="recorded:answers.jsonl", budget={"max_tokens": 50})
    finished, record = panel.run()
    assert finished.code == 4, finished.stdout + finished.stderr
    # A trial without its verdicts is not done: --resume runs it again.
    assert evaluations(record) == []
    assert record.stopped is not None
    assert "budget" in record.stopped
    assert panel.models.requests == []


@pytest.mark.proves("Judges: escalate", "Escalation: to")
def test_a_second_judge_decides_where_the_first_leaves_doubt(panel: Panel) -> None:
    cases = [{"name": f"case {number}", "input": f"question {number}"} for number in range(5)]
    panel.scores = {A: [9, 6, 5, 3, 8], B: [2, 7, 9, 6, 1]}
    judges = {"models": panel.references(A), "escalate": {"to": panel.reference(B)}}
    panel.suite(panel.metric(threshold=0.5), {"judges": judges, "limits": {"concurrency": 1}}, cases)
    planned = panel.project.run("run", "--dry-run", OPENAI_API_KEY=KEY).stdout
    assert f"5 calls of openai/{A}" in planned
    assert f"0 to 5 calls of openai/{B}" in planned
    finished, record = panel.run("--record", "tape")
    found = evaluations(record)
    # 9 and 8 pass clearly; 6 is within 0.1 of 5, 5 is on it, and 3 fails.
    assert [each.score for each in found] == [0.9, 0.2, 0.7, 0.9, 0.8]
    assert [each.metadata["judge"] for each in found] == [f"openai/{name}" for name in (A, B, B, B, A)]
    firsts = [each.metadata.get("escalated_from") for each in found]
    assert [None if first is None else (first["score"], first["passed"]) for first in firsts] == [
        None,
        (0.6, True),
        (0.5, True),
        (0.3, False),
        None,
    ]
    assert finished.code == 1
    assert (len(panel.asked(A)), len(panel.asked(B))) == (5, 3)
    again = panel.run("--replay", "tape")[1]
    assert [each.score for each in evaluations(again)] == [each.score for each in found]
    assert len(panel.asked(B)) == 3


def test_a_second_judge_decides_when_the_first_gives_no_verdict(panel: Panel) -> None:
    panel.down, panel.scores = {A}, {B: 8, C: 9, D: 9}
    panel.suite(panel.metric(judges={"models": panel.references(A), "escalate": {"to": panel.reference(B)}}))
    finished, record = panel.run()
    (found,) = evaluations(record)
    assert (finished.code, found.score) == (0, 0.8)
    assert "is overloaded" in found.metadata["escalated_from"]["error"]
    # A panel comes first, too.
    panel.scores[C] = 2
    judges = {"models": panel.references(C, D), "escalate": {"to": panel.reference(B)}}
    panel.suite(panel.metric(judges=judges))
    (found,) = evaluations(panel.run()[1])
    assert (found.score, found.metadata["judge"]) == (0.8, f"openai/{B}")
    assert len(found.metadata["escalated_from"]["panel"]["verdicts"]) == 2
    panel.down.add(B)
    finished, record = panel.run()
    assert finished.code == 3


def test_an_outage_of_a_first_judge_does_not_end_the_run(panel: Panel) -> None:
    panel.scores = {B: 8}
    away = panel.reference(A) | {"endpoint": "http://127.0.0.1:1/v1"}
    metric = panel.metric(judges={"models": [away], "escalate": {"to": panel.reference(B)}})
    panel.suite(metric, {"limits": {"turn_timeout_s": 1}}, CASES)
    finished, record = panel.run()
    assert (finished.code, [each.score for each in evaluations(record)]) == (0, [0.8] * 3)
