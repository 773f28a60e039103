"""`rejudge`: stored answers graded again, by real processes against a model server on loopback."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.decide.decision import decide
from holodeck_action.decide.written_results import write_results
from holodeck_action.record.canonical import canonical_json, record_digest
from holodeck_action.record.record import CaseRecord, Record
from holodeck_action.record.result_files import read_record
from tests.commands.deadlines import ever_longer
from tests.commands.project import Finished, Project, evaluations
from tests.llm.models import KEY, Answer, FakeModels, Request

pytestmark = pytest.mark.needs("deepeval")

TESTED = "gpt-4o-tested"
STEPS = ["Read the answer.", "Compare it with the criteria."]
GEVAL = {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS}
EQUALITY = {"type": "standard", "metric": "equality"}
CASES = [{"name": f"case {n}", "input": f"question {n}", "ground_truth": f"echo: question {n}"} for n in range(3)]


class Shop:
    """A server on which the model under test echoes and every judge gives its score."""

    def __init__(self, models: FakeModels, project: Project) -> None:
        self.models = models
        self.project = project
        self.scores: dict[str, int] = {"judge": 9, "strict": 3}
        models.answer(self)

    def __call__(self, request: Request) -> Any:
        if request.model == TESTED:
            return Answer(f"echo: {request.text}")
        reason = f"{request.model} read {zlib.crc32(request.text.encode())}"
        return Answer(json.dumps({"reason": reason, "score": self.score(request)}))

    def score(self, request: Request) -> int:
        return self.scores[request.model]

    def asked(self, model: str) -> list[Request]:
        return [request for request in self.models.requests if request.model == model]

    def model(self, name: str = "judge") -> dict[str, Any]:
        return {"provider": "openai", "name": name, "endpoint": self.models.openai_url}

    def suite(self, *metrics: dict[str, Any], cases: list[dict[str, Any]] | None = None, **top: Any) -> None:
        judged = [{"model": self.model(), **metric} if metric["type"] == "geval" else metric for metric in metrics]
        self.project.suite(cases or CASES, judged, **{"model": self.model(TESTED), **top})

    def run(self, *flags: str, **environ: str) -> tuple[Finished, Record]:
        return self.project.evaluate(*flags, **{"OPENAI_API_KEY": KEY, **environ})

    def rejudge(self, *flags: str, **environ: str) -> tuple[Finished, Record]:
        finished = self.refused(*flags, **environ)
        path = self.project.folder / "again" / "results.json"
        assert path.exists(), finished.stdout + finished.stderr
        return finished, read_record(path)

    def refused(self, *flags: str, **environ: str) -> Finished:
        given = {"OPENAI_API_KEY": KEY, **environ}
        return self.project.run("rejudge", "out/results.json", "-o", "again", *flags, **given)


@pytest.fixture
def shop(project: Project) -> Iterator[Shop]:
    with FakeModels(keys=[KEY]) as models:
        yield Shop(models, project)
        assert models.violations == []


def canonical_cases(record: Record) -> list[Any]:
    cases: list[Any] = json.loads(canonical_json(record))["cases"]
    return cases


@pytest.mark.proves("rejudge: --output-dir")
def test_answers_are_graded_again_and_the_agent_is_not_asked(shop: Shop) -> None:
    shop.suite(EQUALITY, GEVAL)
    finished, record = shop.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    asked = len(shop.asked(TESTED))
    finished, again = shop.rejudge()
    assert finished.code == 0, finished.stdout + finished.stderr
    assert (len(shop.asked(TESTED)), len(shop.asked("judge"))) == (asked, 6)
    assert canonical_cases(again) == canonical_cases(record)
    assert again.provenance.rejudged == record_digest(record)
    assert again.provenance.target == record.provenance.target
    assert again.notices[0].startswith(f"judged again: the answers are from record {record_digest(record)[:12]}")
    assert again.notices[0] in finished.stdout
    for name in ("verdict.json", "report.md", "junit.xml"):
        assert (shop.project.folder / "again" / name).exists()
    assert not (shop.project.folder / "again" / "journal.jsonl").exists()
    assert read_record(shop.project.out / "results.json") == record


@pytest.mark.proves("rejudge: --fail-on")
def test_the_metrics_judges_and_gates_are_the_suites_of_now(shop: Shop) -> None:
    shop.suite(EQUALITY)
    assert shop.run()[0].code == 0
    # A metric more, by a judge who finds everything bad.
    shop.suite(EQUALITY, {**GEVAL, "model": shop.model("strict")})
    finished, again = shop.rejudge()
    assert finished.code == 1
    assert [float(each.score or 0) for each in evaluations(again)] == [1.0, 0.3] * 3
    # Another threshold of the same metric.
    shop.suite(EQUALITY, {**GEVAL, "model": shop.model("strict"), "threshold": 0.2})
    finished, again = shop.rejudge()
    assert finished.code == 0
    assert {each.criteria.threshold for each in evaluations(again) if each.evaluator_name == "quality"} == {0.2}
    shop.suite(EQUALITY, {**GEVAL, "model": shop.model("strict")})
    assert shop.rejudge("--min-pass-rate", "0", "--max-errors", "0")[0].code == 0
    assert shop.rejudge("--fail-on", "never")[0].code == 0
    assert len(shop.asked(TESTED)) == 3


def test_a_case_that_asks_something_else_now_is_an_error(shop: Shop) -> None:
    shop.suite(EQUALITY)
    shop.run()
    changed = [CASES[0], {**CASES[1], "input": "question one"}, {**CASES[2], "name": "renamed"}]
    shop.suite(EQUALITY, cases=changed)
    finished = shop.refused()
    assert finished.code == 2
    lines = finished.stderr.splitlines()
    assert len(lines) == 2, finished.stderr
    assert lines[0].startswith("error: out/results.json: case 'case-1': its input or expectations have changed")
    assert "agent.yaml:" in lines[0]
    assert lines[1].startswith("error: out/results.json: case 'case-2': it is no longer in the suite")
    assert not (shop.project.folder / "again" / "results.json").exists()


def test_a_case_without_a_stored_answer_is_told(shop: Shop) -> None:
    shop.suite(EQUALITY, cases=CASES[:2])
    shop.run()
    shop.suite(EQUALITY)
    finished, again = shop.rejudge()
    assert finished.code == 0
    assert [case.name for case in again.cases] == ["case 0", "case 1"]
    assert "1 case(s) of the suite have no answer in that record: case 2" in again.notices
    # The filter of the run that was made with one says the same.
    shop.run("--case", "case 0")
    _, again = shop.rejudge()
    assert again.provenance.filters == {"case": ["case 0"]}
    assert any(notice.startswith("only 1 of 3 cases were chosen: --case 'case 0'") for notice in again.notices)
    assert not any("no answer in that record" in notice for notice in again.notices)


def test_conversations_tools_and_contexts_come_from_the_record(shop: Shop) -> None:
    cases: list[dict[str, Any]] = [
        {
            "name": "order",
            "turns": [
                {"input": "Where is A-17?", "expected_tools": ["find"], "ground_truth": "In Leeds"},
                {"input": "And when?", "ground_truth": "Tomorrow"},
            ],
            "evaluations": [{"type": "rag", "metric_type": "faithfulness", "model": shop.model()}, EQUALITY],
        },
        {
            "name": "broken",
            "turns": [{"input": "first", "ground_truth": "x"}, {"input": "second", "ground_truth": "y"}],
        },
    ]
    rows = [
        {
            "case": "order",
            "turn": 0,
            "response": "In Leeds",
            "tool_invocations": [{"name": "find", "args": {"order": "A-17"}, "result": "Leeds"}],
            "retrieval_context": ["A-17 is in Leeds"],
        },
        {"case": "order", "turn": 1, "response": "Tomorrow", "retrieval_context": ["it comes tomorrow"]},
    ]

    def answer(request: Request) -> Any:
        asked = frozenset(((request.schema or {}).get("properties") or {}).keys())
        given: dict[str, Any] = {
            "claims": {"claims": ["it is so"]},
            "truths": {"truths": ["it is so"]},
            "verdicts": {"verdicts": [{"verdict": "yes", "reason": "it is"}]},
            "reason": {"reason": "so it is"},
        }
        return Answer(json.dumps(given[next(iter(asked))]))

    shop.models.answer(answer)
    shop.suite(EQUALITY, cases=cases)
    shop.project.answers(rows)
    shop.project.policy(target="recorded:answers.jsonl")
    finished, record = shop.run()
    assert finished.code == 3, finished.stdout + finished.stderr
    order, broken = record.cases
    assert [turn.retrieval_context for turn in order.trials[0].turns] == [
        ("A-17 is in Leeds",),
        ("A-17 is in Leeds", "it comes tomorrow"),
    ]
    assert broken.trials[0].turns[0].error is not None
    # The transcript is gone: nothing but the record is read.
    (shop.project.folder / "answers.jsonl").unlink()
    finished, again = shop.rejudge()
    assert finished.code == 3
    assert canonical_cases(again) == canonical_cases(record)
    assert again.provenance.target == "recorded:answers.jsonl"


def changed(shop: Shop, **changes: Any) -> None:
    record = replace(read_record(shop.project.out / "results.json"), **changes)
    write_results(shop.project.out, record, decide(record))


def only_case(shop: Shop, **changes: Any) -> tuple[CaseRecord, ...]:
    (case,) = read_record(shop.project.out / "results.json").cases
    return (replace(case, **changes),)


def test_trials_are_those_of_the_record(shop: Shop) -> None:
    shop.suite(GEVAL, cases=CASES[:1])
    shop.project.policy(trials={"stop_when_decided": False})
    shop.run("--repeat", "3", "--min-pass", "2")
    finished, again = shop.rejudge()
    (case,) = again.cases
    assert (finished.code, case.repeat, case.min_pass, len(case.trials)) == (0, 3, 2, 3)
    # One is missing: what it would have said is not known, unless the others decide.
    trials = case.trials
    changed(shop, cases=only_case(shop, trials=trials[:1] + trials[2:]))
    assert shop.rejudge("--min-completeness", "0.6")[0].code == 0
    assert shop.rejudge()[0].code == 3
    changed(shop, cases=only_case(shop, trials=trials[2:]))
    finished, again = shop.rejudge("--min-completeness", "0.1")
    assert (finished.code, [trial.index for trial in again.cases[0].trials]) == (3, [2])
    changed(shop, cases=only_case(shop, trials=(*trials, trials[0])))
    assert "the indexes of its trials" in shop.refused().stderr


def test_a_trial_that_was_not_needed_then_may_be_missing_now(shop: Shop) -> None:
    shop.suite(GEVAL, cases=CASES[:1])
    _, record = shop.run("--repeat", "3", "--min-pass", "2")
    assert len(record.cases[0].trials) == 2
    # The judge takes the two answers, which are equal, for different ones: a third trial would have to decide.
    scores = iter((9, 1))
    shop.models.answer(lambda request: Answer(json.dumps({"reason": "so", "score": next(scores)})))
    finished, again = shop.rejudge()
    assert (finished.code, len(again.cases[0].trials)) == (3, 2)


def test_a_run_that_stopped_early_stays_one(shop: Shop) -> None:
    shop.suite(EQUALITY)
    shop.run()
    changed(shop, stopped="SIGTERM was received")
    finished, again = shop.rejudge()
    assert finished.code == 4
    assert again.stopped == "the run that gave the answers had stopped early: SIGTERM was received"


def test_what_was_redacted_stays_so(shop: Shop) -> None:
    secret = "planted-in-the-answer-99"
    shop.suite(GEVAL, cases=[{"name": "leak", "input": "question"}])
    shop.models.answer(
        lambda request: Answer(f"it is {secret}") if request.model == TESTED else Answer('{"reason": "so", "score": 9}')
    )
    shop.run(DB_PASSWORD=secret)
    assert secret in shop.asked("judge")[-1].text
    _, again = shop.rejudge(DB_PASSWORD=secret)
    assert "it is ***" in shop.asked("judge")[-1].text
    assert secret not in shop.asked("judge")[-1].text
    assert again.cases[0].trials[0].turns[0].response == "it is ***"


@pytest.mark.proves("rejudge: --replay")
def test_a_recording_of_the_run_answers_for_the_judges(shop: Shop) -> None:
    shop.suite(EQUALITY, GEVAL)
    _, record = shop.run("--record", "tape")
    before = len(shop.models.requests)
    finished, again = shop.rejudge("--replay", "tape", OPENAI_API_KEY="")
    assert finished.code == 0, finished.stderr
    assert canonical_cases(again) == canonical_cases(record)
    # What was not recorded is an error, never a pass.
    shop.suite(EQUALITY, {**GEVAL, "evaluation_steps": ["Look."]})
    finished, again = shop.rejudge("--replay", "tape", OPENAI_API_KEY="")
    assert finished.code == 3
    assert {each.status for each in evaluations(again) if each.evaluator_name == "quality"} == {"failed"}
    assert len(shop.models.requests) == before


def test_neither_the_agents_key_nor_its_target_is_needed(shop: Shop) -> None:
    shop.suite({**GEVAL, "model": {**shop.model(), "api_key": "${JUDGE_KEY}"}}, cases=CASES[:1])
    finished, _ = shop.run(JUDGE_KEY=KEY)
    assert finished.code == 0, finished.stderr
    shop.project.policy(target="python:gone:answer")
    finished, again = shop.rejudge(OPENAI_API_KEY="", JUDGE_KEY=KEY)
    assert finished.code == 0, finished.stderr
    assert again.provenance.target.startswith("model:")


@pytest.mark.proves("rejudge: --max-tokens --dry-run")
def test_a_budget_and_a_plan(shop: Shop) -> None:
    shop.suite(GEVAL)
    shop.run()
    before = len(shop.models.requests)
    finished = shop.project.run("rejudge", "out/results.json", "--dry-run", OPENAI_API_KEY=KEY)
    assert finished.code == 0
    assert "3 cases, recorded:out/results.json answers; 3 evaluations by judges" in finished.stdout
    assert len(shop.models.requests) == before
    finished, again = shop.rejudge("--max-tokens", "1")
    assert finished.code == 4
    assert again.stopped is not None
    assert len(shop.models.requests) == before


@pytest.mark.proves("rejudge: --cache")
def test_verdicts_are_kept(shop: Shop) -> None:
    shop.suite(GEVAL)
    shop.run("--cache", "kept")
    before = len(shop.models.requests)
    _, again = shop.rejudge("--cache", "kept")
    assert len(shop.models.requests) == before
    assert [each.cached for each in evaluations(again)] == [True] * 3


def test_texts_of_files_come_from_the_record(shop: Shop) -> None:
    with_context = {**GEVAL, "evaluation_params": ["actual_output", "context"]}
    cases = [{"name": "file", "input": "question", "files": [{"path": "notes.txt", "type": "text"}]}]
    notes = shop.project.write("notes.txt", "the notes of the case")
    shop.suite(with_context, cases=cases)
    shop.project.answers([{"case": "file", "response": "an answer"}])
    shop.project.policy(target="recorded:answers.jsonl")
    finished, record = shop.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    notes.write_text("other notes")
    refused = shop.refused()
    assert (refused.code, "its file notes.txt has changed" in refused.stderr) == (2, True)
    notes.write_text("the notes of the case")
    finished, again = shop.rejudge()
    assert finished.code == 0, finished.stdout + finished.stderr
    assert "the notes of the case" in shop.asked("judge")[-1].text
    assert canonical_cases(again) == canonical_cases(record)
    # Nobody had read the text of the file.
    shop.suite(GEVAL, cases=cases)
    shop.run()
    shop.suite(with_context, cases=cases)
    finished, again = shop.rejudge()
    assert finished.code == 3
    error = again.cases[0].trials[0].turns[0].error
    assert error is not None
    assert error.code == "no_file_texts"


def test_what_cannot_be_used_is_refused(shop: Shop) -> None:
    shop.suite(EQUALITY)
    shop.run()
    kept = (shop.project.out / "results.json").read_bytes()
    finished = shop.project.run("rejudge", "out/results.json", "-o", "out")
    assert finished.code == 2
    assert "the new record would replace out/results.json" in finished.stderr
    assert (shop.project.out / "results.json").read_bytes() == kept
    for name, words in (("agent.yaml", "not a results file"), ("gone.json", "cannot be read")):
        finished = shop.project.run("rejudge", name)
        assert (finished.code, words in finished.stderr) == (2, True), finished.stderr
    finished = shop.refused("--replay", "a", "--cache", "b")
    assert "leave out --record and --cache" in finished.stderr
    shop.run("--case", "case 0")
    informational = {**CASES[0], "evaluations": [{"type": "standard", "metric": "bleu"}]}
    shop.suite(EQUALITY, cases=[informational, *CASES[1:]])
    assert "nothing can fail in the cases of out/results.json" in shop.refused().stderr


# -- flags


@pytest.mark.proves("rejudge: --min-pass-rate --min-pass-rate-lower-bound --min-completeness --max-errors --max-flaky")
def test_gates_of_the_command_line_win(shop: Shop) -> None:
    shop.suite(EQUALITY)
    shop.run("--min-pass-rate", "0.25")
    shop.project.policy(gates={"min_pass_rate": 0.5, "max_errors": 9})
    flags = {
        "min_pass_rate": 0.75,
        "min_pass_rate_lower_bound": 0.3,
        "min_completeness": 0.8,
        "max_errors": 1,
        "max_flaky": 2,
    }
    _, again = shop.rejudge()
    assert (again.gates.min_pass_rate, again.gates.max_errors) == (0.5, 9)
    given = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    _, again = shop.rejudge(*given)
    assert {name: getattr(again.gates, name) for name in flags} == flags


@pytest.mark.proves("rejudge: --run-timeout --resume")
def test_a_deadline_stops_it_and_it_is_continued(shop: Shop) -> None:
    shop.suite(GEVAL)
    shop.run()
    shop.models.latency = lambda request: 0.0 if "question 0" in request.text else 120.0

    def attempt(seconds: float) -> tuple[Finished, Record, str]:
        reason = f"the run deadline of {seconds} s was reached"
        return *shop.rejudge("--run-timeout", f"{seconds}", "--concurrency", "1"), reason

    finished, again, reason = ever_longer(attempt, lambda ran: bool(ran[1].cases[0].trials), (8, 20, 60))
    assert finished.code == 4, finished.stdout + finished.stderr
    assert again.stopped == reason
    assert [len(case.trials) for case in again.cases] == [1, 0, 0]
    shop.models.latency = 0.0
    asked = len(shop.asked("judge"))
    finished, again = shop.rejudge("--resume")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert again.run.resumed_trials == 1
    assert len(shop.asked("judge")) - asked == 2


@pytest.mark.proves("rejudge: --concurrency")
def test_conversations_at_a_time(shop: Shop) -> None:
    shop.suite(GEVAL)
    shop.run("--concurrency", "1")
    shop.models.latency = 0.1
    peak = shop.models.peak
    assert peak == 1
    shop.rejudge("--concurrency", "1")
    assert shop.models.peak == 1
    shop.rejudge("--concurrency", "3")
    assert shop.models.peak > 1


@pytest.mark.proves("rejudge: RESULTS")
def test_the_record_is_the_one_that_is_named(shop: Shop) -> None:
    shop.suite(EQUALITY)
    assert shop.project.run("run", "--case", "case 1", "-o", "kept", OPENAI_API_KEY=KEY).code == 0
    shop.run()
    finished = shop.project.run("rejudge", "kept/results.json", "-o", "again", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [case.name for case in read_record(shop.project.folder / "again" / "results.json").cases] == ["case 1"]


@pytest.mark.proves("rejudge: --max-cost-usd")
def test_dollars_stop_it(shop: Shop) -> None:
    shop.scores["gpt-4o"] = 9
    shop.suite({**GEVAL, "model": shop.model("gpt-4o")})
    shop.run()
    before = len(shop.models.requests)
    finished, again = shop.rejudge("--max-cost-usd", "0.0000001")
    assert (finished.code, len(shop.models.requests)) == (4, before), finished.stdout + finished.stderr
    assert again.stopped is not None
    assert shop.rejudge("--max-cost-usd", "10")[0].code == 0


@pytest.mark.proves("rejudge: SUITE --max-cost-usd --env-file --record --template --html")
def test_the_other_flags(shop: Shop) -> None:
    shop.suite(GEVAL, cases=CASES[:1])
    shop.run()
    finished = shop.refused("--max-cost-usd", "1")
    assert (finished.code, "the price of OpenAI model judge is unknown" in finished.stderr) == (2, True)
    shop.project.write("keys.env", f"OPENAI_API_KEY={KEY}\n")
    shop.project.write("mine.md", "All of {{ 1 + 1 }} cases.\n")
    given = ("--env-file", "keys.env", "--record", "tape", "--template", "mine.md", "--no-html")
    finished = shop.project.run("rejudge", "out/results.json", "agent.yaml", "-o", "again", *given)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert (shop.project.folder / "again" / "report.md").read_text() == "All of 2 cases.\n"
    assert not (shop.project.folder / "again" / "report.html").exists()
    assert len((shop.project.folder / "tape" / "cassette.jsonl").read_text().splitlines()) == 1
    finished = shop.project.run("rejudge", "out/results.json", "gone.yaml")
    assert (finished.code, "gone.yaml: no such suite" in finished.stderr) == (2, True)
