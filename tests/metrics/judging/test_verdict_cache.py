"""Verdicts kept between runs: what finds them, what does not, and what is never kept."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project, evaluations
from tests.extensions.deepeval.test_isolation import Imports
from tests.llm.judging import Judge, Truth
from tests.llm.models import KEY, Answer, FakeModels, Fault, Request

pytestmark = pytest.mark.needs("deepeval")

STEPS = ["Read the answer.", "Compare it with the criteria."]
TRUTHS = [
    Truth(
        number,
        claim_verdicts=("yes", "no"),
        statement_verdicts=("yes", "yes", "no", "yes"),
        chunk_statements=(("yes",),),
        chunk_verdicts=("yes",),
        sentence_verdicts=("yes",),
        score=8,
        alternatives={"8": 0.75, "9": 0.25},
    )
    for number in range(3)
]
GEVAL = {"type": "geval", "name": "quality", "criteria": "Is it good?", "evaluation_steps": STEPS}
RAG = [{"type": "rag", "metric_type": name} for name in ("faithfulness", "answer_relevancy")]
ALL: list[dict[str, Any]] = [GEVAL, *RAG]


class Kept:
    """A suite that a transcript answers and a judge grades, with a cache."""

    def __init__(self, models: FakeModels, project: Project) -> None:
        self.models = models
        self.project = project
        models.answer(Judge(*TRUTHS))
        self.answers()

    def answers(self, **changed: str) -> None:
        rows = [
            {
                "case": f"case-{truth.number}",
                "response": changed.get(f"case{truth.number}", truth.case["actual_output"]),
                "retrieval_context": truth.chunks,
            }
            for truth in TRUTHS
        ]
        self.project.answers(rows)

    def suite(self, *metrics: dict[str, Any], policy: dict[str, Any] | None = None, **model: Any) -> None:
        cases = [{"name": f"case-{t.number}", "input": t.case["input"]} for t in TRUTHS]
        given = {"provider": "openai", "name": "judge", "endpoint": self.models.openai_url, **model}
        self.project.suite(cases, list(metrics), model=given)
        self.project.policy(target="recorded:answers.jsonl", **(policy or {}))

    def run(self, *flags: str, **environ: str) -> tuple[int, Record, Finished]:
        """Return how many calls the judge got, and what came of them."""
        before = len(self.models.requests)
        finished, record = self.project.evaluate("--cache", "kept", *flags, **{"OPENAI_API_KEY": KEY, **environ})
        return len(self.models.requests) - before, record, finished

    def forget_calls(self) -> None:
        """Remove what the wire keeps, so that only a kept verdict saves a call."""
        for path in (self.project.folder / "kept").glob("*.json"):
            path.unlink()

    def files(self) -> list[Path]:
        return sorted((self.project.folder / "kept" / "verdicts").glob("*.json"))


@pytest.fixture
def kept(project: Project) -> Iterator[Kept]:
    with FakeModels(keys=[KEY]) as models:
        yield Kept(models, project)
        assert models.violations == []


def test_a_second_run_asks_no_judge_and_has_the_same_record(kept: Kept) -> None:
    kept.suite(*ALL)
    calls, first, finished = kept.run()
    assert calls == 3 * (1 + 4 + 3), finished.stdout + finished.stderr
    assert [each.cached for each in evaluations(first)] == [False] * 9
    kept.forget_calls()
    calls, second, finished = kept.run()
    assert calls == 0
    assert [each.cached for each in evaluations(second)] == [True] * 9
    assert canonical_json(second) == canonical_json(first)
    assert [each.cost_usd for each in evaluations(second)] == [each.cost_usd for each in evaluations(first)]
    assert [each.duration_ms for each in evaluations(second)] == [
        round(each.duration_ms or 0, 1) for each in evaluations(first)
    ]
    model_calls = second.run.model_calls
    assert model_calls is not None
    assert (model_calls.calls, model_calls.reused) == (0, 9)
    assert "9 verdicts of an earlier run" in finished.stdout
    assert KEY not in "".join(path.read_text() for path in kept.files())


@pytest.mark.full
@pytest.mark.parametrize("metrics", [ALL, [{"type": "composite", "metrics": ALL}]], ids=["alone", "composite"])
def test_a_second_run_imports_nothing_that_judges(
    kept: Kept, metrics: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept.suite(*metrics)
    kept.run()
    imports = Imports(tmp_path_factory.mktemp("watch"))
    calls, _, _ = kept.run(**imports.environ)
    assert (calls, imports.seen()) == (0, set())


@pytest.mark.full
def test_the_watch_sees_the_imports_of_a_run_that_asks(kept: Kept, tmp_path_factory: pytest.TempPathFactory) -> None:
    kept.suite(*ALL)
    imports = Imports(tmp_path_factory.mktemp("watch"))
    calls, _, _ = kept.run(**imports.environ)
    assert calls > 0
    assert "deepeval" in imports.seen()


@pytest.mark.full
def test_a_replay_of_recorded_verdicts_imports_nothing_that_judges(
    kept: Kept, tmp_path_factory: pytest.TempPathFactory
) -> None:
    kept.suite(*ALL)
    project, imports = kept.project, Imports(tmp_path_factory.mktemp("watch"))
    for _ in range(2):
        # The second recording asks again: it must hold the calls of its own verdicts.
        before = len(kept.models.requests)
        recorded = project.run("run", "-o", "recorded", "--record", "tape", OPENAI_API_KEY=KEY)
        assert (recorded.code, len(kept.models.requests) - before) == (0, 24), recorded.stdout
    expected = canonical_json(read_record(project.folder / "recorded" / "results.json"))
    tape = project.folder / "tape"
    assert sorted(path.name for path in tape.iterdir()) == ["cassette.jsonl", "verdicts.jsonl"]
    kept_verdicts = (tape / "verdicts.jsonl").read_bytes().splitlines(keepends=True)
    assert len(kept_verdicts) == 9
    assert kept_verdicts == sorted(kept_verdicts)
    finished, replayed = project.evaluate("--replay", "tape", **imports.environ)
    assert (finished.code, imports.seen()) == (0, set()), finished.stderr
    assert canonical_json(replayed) == expected
    assert [each.cached for each in evaluations(replayed)] == [True] * 9
    # What is not there the recorded calls tell, and a replay writes nothing.
    (tape / "verdicts.jsonl").write_bytes(b"".join(kept_verdicts[1:]))
    finished, replayed = project.evaluate("--replay", "tape", **imports.environ)
    assert "deepeval" in imports.seen()
    assert canonical_json(replayed) == expected
    assert [each.cached for each in evaluations(replayed)].count(False) == 1
    assert (tape / "verdicts.jsonl").read_bytes().splitlines(keepends=True) == kept_verdicts[1:]
    assert KEY.encode() not in b"".join(kept_verdicts)
    # Recordings of earlier versions have a file for each verdict.
    (tape / "verdicts").mkdir()
    for line in kept_verdicts:
        verdict = json.loads(line)
        (tape / "verdicts" / f"{verdict.pop('key')}.json").write_text(json.dumps(verdict))
    (tape / "verdicts.jsonl").unlink()
    finished, replayed = project.evaluate("--replay", "tape")
    assert [each.cached for each in evaluations(replayed)] == [True] * 9
    assert canonical_json(replayed) == expected


def test_a_new_threshold_finds_the_verdicts_and_decides_anew(kept: Kept) -> None:
    kept.suite(GEVAL)
    _, _, finished = kept.run()
    assert finished.code == 0
    kept.forget_calls()
    kept.suite({**GEVAL, "threshold": 0.95})
    calls, record, finished = kept.run()
    assert (calls, finished.code) == (0, 1)
    assert {each.criteria.threshold for each in evaluations(record)} == {0.95}


@pytest.mark.parametrize(
    "change",
    [
        {"criteria": "Is it polite?"},
        {"evaluation_steps": ["Look."]},
        {"evaluation_params": ["actual_output", "input"]},
        {"strict_mode": True},
        {"name": "other"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_configuration_is_asked_anew(kept: Kept, change: dict[str, Any]) -> None:
    kept.models.answer(lambda request: Answer(json.dumps({"reason": "so", "score": 1})))
    kept.suite(GEVAL)
    assert kept.run()[0] == 3
    kept.forget_calls()
    kept.suite({**GEVAL, **change})
    assert kept.run()[0] == 3


@pytest.mark.parametrize(
    "change",
    [{"name": "other"}, {"temperature": 0.5}, {"max_tokens": 77}, {"provider": "ollama"}],
    ids=lambda change: next(iter(change)),
)
def test_another_judge_is_asked_anew(kept: Kept, change: dict[str, Any]) -> None:
    kept.suite(GEVAL)
    assert kept.run()[0] == 3
    kept.forget_calls()
    if "provider" in change:
        change = {**change, "endpoint": kept.models.ollama_url, "api_key": KEY}
    kept.suite(GEVAL, **change)
    assert kept.run()[0] == 3


def test_another_answer_or_context_is_asked_anew_and_only_by_metrics_that_see_it(kept: Kept) -> None:
    kept.suite(GEVAL, RAG[0])
    kept.run()
    kept.forget_calls()
    kept.answers(case1="another answer of case-1")
    calls, record, _ = kept.run()
    assert calls == 1 + 4
    assert [each.cached for each in evaluations(record)] == [True, True, False, False, True, True]
    kept.forget_calls()
    rows = [json.loads(line) for line in (kept.project.folder / "answers.jsonl").read_text().splitlines()]
    rows[0]["retrieval_context"].append("chunk 1 of case-0")
    kept.project.answers(rows)
    _, record, _ = kept.run()
    # The criteria do not look at the context.
    assert [each.cached for each in evaluations(record)] == [True, False, True, True, True, True]


def test_every_trial_is_judged_by_itself(kept: Kept) -> None:
    rows = [{"case": "case-0", "trial": trial, "response": "answer of case-0"} for trial in range(2)]
    kept.project.answers(rows)
    kept.suite(GEVAL)
    assert kept.run("--limit", "1")[0] == 1
    kept.forget_calls()
    calls, record, _ = kept.run("--limit", "1", "--repeat", "2", "--min-pass", "2")
    assert calls == 1
    assert [each.cached for each in evaluations(record)] == [True, False]


def test_steps_that_the_judge_wrote_are_kept_with_the_verdicts(kept: Kept) -> None:
    unwritten = {name: value for name, value in GEVAL.items() if name != "evaluation_steps"}
    kept.suite(unwritten)
    assert kept.run()[0] == 1 + 3
    kept.forget_calls()
    kept.answers(case2="another answer of case-2")
    calls, record, _ = kept.run()
    # Only the changed answer is graded, by the steps of the first run.
    assert calls == 1
    assert [each.cached for each in evaluations(record)] == [True, True, False]
    assert {tuple(each.metadata["evaluation_steps"]) for each in evaluations(record)} == {tuple(STEPS)}


def test_what_could_not_be_judged_is_not_kept(kept: Kept) -> None:
    def answer(request: Request) -> Any:
        if "case-0" in request.text:
            return Answer("no verdict at all")
        return Fault("bad_key") if "case-1" in request.text else Answer(json.dumps({"reason": "so", "score": 9}))

    kept.models.answer(answer)
    kept.suite(GEVAL)
    _, record, finished = kept.run()
    assert [each.status for each in evaluations(record)] == ["failed", "failed", "completed"]
    assert finished.code == 3
    assert len(kept.files()) == 1
    kept.models.answer(Judge(*TRUTHS))
    kept.forget_calls()
    calls, record, finished = kept.run()
    assert (calls, finished.code) == (2, 0)
    assert [each.cached for each in evaluations(record)] == [False, False, True]


def test_a_panel_in_which_a_judge_was_silent_is_asked_anew(kept: Kept) -> None:
    def answer(request: Request) -> Any:
        if request.model == "judge-b" and "case-0" in request.text:
            return Answer("no verdict at all")
        return Answer(json.dumps({"reason": "so", "score": 9}))

    kept.models.answer(answer)
    judges = [
        {"provider": "openai", "name": name, "endpoint": kept.models.openai_url} for name in ("judge-a", "judge-b")
    ]
    kept.suite({**GEVAL, "judges": {"models": judges}})
    _, record, finished = kept.run()
    assert finished.code == 0, finished.stdout + finished.stderr
    kept.forget_calls()
    _, record, _ = kept.run()
    assert [each.cached for each in evaluations(record)] == [False, True, True]
    # A vote depends on the threshold, unlike the score of one judge.
    kept.forget_calls()
    kept.suite({**GEVAL, "threshold": 0.95, "judges": {"models": judges}})
    _, record, _ = kept.run()
    assert [each.cached for each in evaluations(record)] == [False] * 3


def test_a_recording_proves_every_call_whatever_is_kept(kept: Kept) -> None:
    kept.suite(GEVAL)
    kept.run()
    kept.forget_calls()
    calls, recorded, _ = kept.run("--record", "tape")
    assert calls == 3
    finished, replayed = kept.project.evaluate("--replay", "tape")
    assert finished.code == 0
    assert canonical_json(replayed) == canonical_json(recorded)


@pytest.mark.proves("CacheSettings: ttl_days")
def test_old_and_broken_files_are_asked_for_and_told(kept: Kept) -> None:
    kept.suite(GEVAL, policy={"cache": {"ttl_days": 1}})
    kept.run()
    kept.forget_calls()
    old, broken, _ = kept.files()
    document = json.loads(old.read_text())
    # Younger than what is kept by default.
    three_days_ago = (datetime.now(UTC) - timedelta(days=3)).isoformat()
    old.write_text(json.dumps({**document, "kept_at": three_days_ago}))
    broken.write_text(json.dumps({**document, "result": {**document["result"], "score": 7}}))
    calls, _, finished = kept.run()
    assert (calls, finished.code) == (2, 0)
    assert "the cache of verdicts could not be used" in finished.stderr
    kept.forget_calls()
    assert kept.run()[0] == 0


@pytest.mark.parametrize(
    "change",
    [
        {"duration_ms": 10**400},
        {"duration_ms": "1"},
        {"usage": {"prompt_tokens": "1", "completion_tokens": 1, "cost_usd": 0.1}},
        {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "cost_usd": [0.1]}},
        {"usage": None},
        {"result": {"score": {"a": 1}}},
        {"result": {"score": 1, "threshold": 10**400}},
        {"result": {"metadata": [["a", "b"]]}},
        {"result": {"polarity": "\ud800"}},
    ],
    ids=str,
)
def test_a_kept_verdict_of_another_form_is_asked_for(kept: Kept, change: dict[str, Any]) -> None:
    kept.suite(GEVAL)
    kept.run()
    kept.forget_calls()
    file, *_ = kept.files()
    document = json.loads(file.read_text())
    for name, value in change.items():
        document[name] = {**document[name], **value} if name == "result" else value
    file.write_text(json.dumps(document))
    calls, record, finished = kept.run()
    assert (calls, finished.code) == (1, 0), finished.stderr
    assert "the cache of verdicts could not be used" in finished.stderr
    assert [type(each.score) for each in evaluations(record)] == [float] * 3


@pytest.mark.proves("CacheSettings: mode dir")
def test_the_policy_file_turns_it_on(kept: Kept) -> None:
    kept.suite(GEVAL, policy={"cache": {"mode": "cache", "dir": "mine"}})
    before = len(kept.models.requests)
    kept.project.evaluate(OPENAI_API_KEY=KEY)
    assert len(kept.models.requests) - before == 3
    for path in (kept.project.folder / "mine").glob("*.json"):
        path.unlink()
    _, record = kept.project.evaluate(OPENAI_API_KEY=KEY)
    assert len(kept.models.requests) - before == 3
    assert [each.cached for each in evaluations(record)] == [True] * 3


def test_presets_are_kept_with_all_that_their_parts_depend_on(kept: Kept) -> None:
    kept.models.answer(lambda request: Answer(json.dumps({"reason": "so", "score": 2})))
    preset = {"type": "summarization", "name": "summary"}
    kept.suite(preset)
    calls, first, finished = kept.run()
    assert (calls, finished.code) == (3 * 4, 0), finished.stdout + finished.stderr
    kept.forget_calls()
    calls, second, finished = kept.run()
    assert (calls, finished.code) == (0, 0)
    assert canonical_json(second) == canonical_json(first)
    # Whether a part passes is in the verdict: another threshold is another verdict.
    for change in ({"metrics": {"fluency": {"threshold": 0.9}}}, {"threshold": 0.9}):
        kept.suite({**preset, **change})
        calls, record, finished = kept.run()
        assert [each.cached for each in evaluations(record)] == [False] * 3
        assert finished.code == 1
        kept.forget_calls()
        assert kept.run()[2].code == 1
    # Criteria without steps are given steps by the judge, and which is not known before it is asked.
    kept.suite({**preset, "metrics": {"fluency": {"criteria": "Is it fluent?"}}})
    kept.models.answer(
        lambda request: Answer(
            json.dumps({"steps": ["Look."]} if "steps" in str(request.schema) else {"reason": "so", "score": 2})
        )
    )
    kept.run()
    assert [each.cached for each in evaluations(kept.run()[1])] == [False] * 3


@pytest.mark.full
def test_the_judged_parts_of_a_composite_are_kept(kept: Kept) -> None:
    parts = [GEVAL, {"type": "length", "max_words": 9}, *RAG, {"type": "code", "grader": "graders:counted"}]
    kept.project.write("graders.py", "def counted(ctx):\n    open('asked', 'a').write('x')\n    return True\n")
    composite = {"type": "composite", "name": "all", "metrics": parts}
    kept.suite(composite)
    calls, first, finished = kept.run()
    assert calls == 3 * (1 + 4 + 3), finished.stdout + finished.stderr
    assert [each.cached for each in evaluations(first)] == [False] * 3
    kept.forget_calls()
    calls, second, _ = kept.run()
    assert calls == 0
    assert canonical_json(second) == canonical_json(first)
    for before, after in zip(evaluations(first), evaluations(second), strict=True):
        assert after.cached
        assert (after.cost_usd, after.metadata["usage"]) == (before.cost_usd, before.metadata["usage"])
        assert (after.metadata["usage"]["prompt_tokens"] or 0) > 0
    assert second.run.model_calls is not None
    assert second.run.model_calls.reused == 3
    # Graders of the suite are asked every time.
    assert (kept.project.folder / "asked").read_text() == "x" * 6
    # Another threshold, in one part and for the whole, decides anew and asks nobody.
    strict = {**composite, "threshold": 0.99, "metrics": [{**GEVAL, "threshold": 0.9}, *parts[1:]]}
    kept.suite(strict)
    calls, third, finished = kept.run()
    assert (calls, finished.code) == (0, 1)
    found = evaluations(third)[0].metadata["metrics"]["quality"]
    assert (found["score"], found["passed"]) == (pytest.approx(0.825), False)
    # Only the part that changed is asked; what it took is what all took.
    kept.suite({**composite, "metrics": [{**GEVAL, "criteria": "Is it kind?"}, *parts[1:]]})
    calls, fourth, _ = kept.run()
    assert calls == 3
    assert [each.cached for each in evaluations(fourth)] == [False] * 3
    before, after = evaluations(first)[0], evaluations(fourth)[0]
    assert before.metadata["usage"]["completion_tokens"] == after.metadata["usage"]["completion_tokens"]


def test_parts_share_their_verdicts_with_metrics_that_stand_alone(kept: Kept) -> None:
    kept.suite(*ALL)
    kept.run()
    kept.forget_calls()
    kept.suite({"type": "composite", "name": "all", "metrics": ALL, "parallel": False})
    calls, record, _ = kept.run()
    assert calls == 0
    assert [each.cached for each in evaluations(record)] == [True] * 3


def test_presets_and_panels_in_a_composite_are_kept(kept: Kept) -> None:
    kept.models.answer(lambda request: Answer(json.dumps({"reason": "so", "score": 2})))
    judge = {"provider": "openai", "name": "judge", "endpoint": kept.models.openai_url}
    preset = {"type": "summarization", "judges": {"models": [judge, {**judge, "name": "other"}]}}
    kept.suite({"type": "composite", "name": "all", "metrics": [preset, {"type": "length", "max_words": 9}]})
    calls, first, finished = kept.run()
    assert calls == 3 * 4 * 2, finished.stdout + finished.stderr
    kept.forget_calls()
    calls, second, _ = kept.run()
    assert calls == 0
    assert canonical_json(second) == canonical_json(first)


def edit(line: bytes, **result: Any) -> bytes:
    document = json.loads(line)
    document["result"] |= result
    return json.dumps(document).encode() + b"\n"


@pytest.mark.parametrize("spoilt", ["verdict", "call", "seal"])
def test_a_recorded_verdict_that_was_edited_is_computed_again(kept: Kept, spoilt: str) -> None:
    """Whatever is edited, a replay says what the recorded calls say."""
    kept.suite(GEVAL)
    project = kept.project
    kept.models.answer(Judge(*(dataclasses.replace(truth, score=3, alternatives={"3": 1.0}) for truth in TRUTHS)))
    assert project.run("run", "-o", "recorded", "--record", "tape", OPENAI_API_KEY=KEY).code == 1
    _, first = project.evaluate("--replay", "tape")
    assert [each.cached for each in evaluations(first)] == [True] * 3
    tape = project.folder / "tape"
    file = tape / "verdicts.jsonl"
    lines = file.read_bytes().splitlines(keepends=True)
    if spoilt == "verdict":
        file.write_bytes(b"".join(edit(line, score=0.9, raw_score=9) for line in lines))
    elif spoilt == "seal":
        # Written for other calls: its seal is right, its calls are not.
        calls = tape / "cassette.jsonl"
        calls.write_bytes(calls.read_bytes().replace(b'"latency_s":', b'"latency_s":1'))
    else:
        calls = tape / "cassette.jsonl"
        text = calls.read_text(encoding="utf-8")
        assert '\\"score\\": 3' in text
        calls.write_text(text.replace('\\"score\\": 3', '\\"score\\": 9').replace('"token": "3"', '"token": "9"'))
    finished, again = project.evaluate("--replay", "tape")
    assert [each.cached for each in evaluations(again)] == [False] * 3
    scores = [each.score for each in evaluations(again)]
    if spoilt == "call":
        assert all(isinstance(score, float) and score > 0.5 for score in scores)
    else:
        assert scores == [each.score for each in evaluations(first)]
    assert "the verdict was computed again" in finished.stderr


def without_calls(line: bytes) -> bytes:
    """Seal a verdict that names none of the calls that it came from."""
    document = json.loads(line) | {"calls": {}}
    sealed = {name: value for name, value in document.items() if name not in ("seal", "key")}
    text = json.dumps(sealed, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(document | {"seal": hashlib.sha256(text.encode()).hexdigest()}).encode() + b"\n"


def test_a_recorded_verdict_that_names_no_call_is_computed_again(kept: Kept) -> None:
    """Nothing recorded says the same as it does: its own digest proves no score."""
    kept.suite(GEVAL)
    project = kept.project
    project.run("run", "-o", "recorded", "--record", "tape", OPENAI_API_KEY=KEY)
    _, first = project.evaluate("--replay", "tape")
    assert [each.cached for each in evaluations(first)] == [True] * 3
    file = project.folder / "tape" / "verdicts.jsonl"
    file.write_bytes(b"".join(map(without_calls, file.read_bytes().splitlines())))
    finished, again = project.evaluate("--replay", "tape")
    assert [each.cached for each in evaluations(again)] == [False] * 3
    assert [each.score for each in evaluations(again)] == [each.score for each in evaluations(first)]
    assert "the verdict was computed again" in finished.stderr


def test_a_verdict_of_a_cache_that_was_edited_is_computed_again(kept: Kept) -> None:
    kept.suite(GEVAL)
    _, first, _ = kept.run()
    for file in kept.files():
        file.write_bytes(edit(file.read_bytes(), score=0.1))
    calls, again, _ = kept.run()
    # The calls are still there, and say what they said.
    assert calls == 0
    assert canonical_json(replace(again, notices=())) == canonical_json(first)
    assert [each.cached for each in evaluations(again)] == [False] * 3
