"""DeepEval's tool correctness: the numbers of DeepEval's own class, in a run that asks no model."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from holodeck_action.extensions.deepeval.library import load_module
from holodeck_action.extensions.deepeval.tool_correctness import DeepEvalToolCorrectnessEvaluator
from holodeck_action.metrics.base import EvaluationError
from holodeck_action.metrics.errors import DeepEvalError
from holodeck_action.metrics.tools.tool_correctness import ToolCorrectnessMetric
from holodeck_action.record.record import ToolInvocation
from holodeck_action.suite.values import ExpectedTool, ToolExpectation
from tests.commands.project import Project, evaluations
from tests.extensions.deepeval.test_isolation import HARMLESS, PLUGINS, ROOT, Watch
from tests.metrics.tools.calls import call, expect, fuzzy, pattern
from tests.suite.folders import HEAD, complaints, load
from tests.tables import walk

KIND = "deepeval_tool_correctness"
OPTIONS: tuple[dict[str, Any], ...] = tuple(
    {**({"evaluation_params": ["input_parameters"]} if compared else {}), **mode, "strict_mode": strict}
    for compared in (False, True)
    for mode in ({}, {"should_exact_match": True}, {"should_consider_ordering": True})
    for strict in (False, True)
)
VALUES = (1, 1.0, True, 2, "1", None, [1, 2], {"a": 1}, {"a": 1, "b": {"c": 2}}, {"a": 1, "b": {"c": 3, "d": 4}})


def native(options: Mapping[str, Any], expected: Sequence[Any], made: Sequence[Any]) -> float:
    """The score of DeepEval's own class; calls are pairs of name and arguments."""
    cases, models, metrics = (load_module(f"deepeval.{name}") for name in ("test_case", "models", "metrics"))

    class Stub(models.DeepEvalBaseLLM):  # type: ignore[misc,name-defined]
        def load_model(self) -> Any:
            return self

        def get_model_name(self) -> str:
            return "stub"

        def generate(self, prompt: str) -> str:
            raise AssertionError(prompt)

        async def a_generate(self, prompt: str) -> str:
            raise AssertionError(prompt)

    params = [cases.ToolCallParams(name) for name in options.get("evaluation_params", ())]
    metric = metrics.ToolCorrectnessMetric(model=Stub(), **{**options, "evaluation_params": params})
    tools = [[cases.ToolCall(name=name, input_parameters=args) for name, args in each] for each in (expected, made)]
    case = cases.LLMTestCase(input="?", actual_output="!", expected_tools=tools[0], tools_called=tools[1])
    return float(asyncio.run(metric.a_measure(case, _show_indicator=False)))


def some_calls(chance: random.Random, most: int) -> list[tuple[str, dict[str, Any]]]:
    return [
        (chance.choice("abc"), {key: chance.choice(VALUES) for key in chance.sample("xyz", chance.randint(0, 3))})
        for _ in range(chance.randint(0, most))
    ]


def score(expected: Sequence[ExpectedTool], made: Sequence[ToolInvocation], **options: Any) -> float:
    result = DeepEvalToolCorrectnessEvaluator(**options).compute(tool_invocations=made, expected_tools=expected)
    assert isinstance(result.score, float)
    return result.score


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_scores_are_deepevals_own(options: dict[str, Any]) -> None:
    chance = random.Random(7)
    seen = set()
    for _ in range(60):
        expected, made = some_calls(chance, 5), some_calls(chance, 6)
        # As agents often do: nearly what is expected, in another order, some of it twice.
        if expected and chance.random() < 0.5:
            made = [*chance.sample(expected, len(expected)), chance.choice(expected)][: chance.randint(1, 6)]
        entries = [expect(name, args) for name, args in expected]
        found = score(entries, [ToolInvocation(name, args) for name, args in made], **options)
        assert found == native(options, expected, made), (expected, made)
        seen.add(found)
    assert {0.0, 1.0} < seen or options["strict_mode"] or options.get("should_exact_match")


def test_an_entry_stands_for_its_count() -> None:
    made = [call("a", n=1), call("a", n=2), call("b")]
    assert score([expect("a", count=3), expect("b")], made) == 3 / 4


SHARED: dict[str, Any] = {"evaluation_params": ["input_parameters"]}
GREEDY = (
    [expect("a", {"x": 1}), expect("a", {"x": 1, "y": 1})],
    [call("a", x=1, y=1), call("a", x=1, z=1)],
)


def test_where_it_differs_from_tool_correctness() -> None:
    """By hand: what docs/metrics.md says of both."""
    ours = ToolCorrectnessMetric(score="recall")

    def recall(expected: Sequence[ExpectedTool], made: Sequence[ToolInvocation]) -> Any:
        return ours.compute(tool_invocations=made, expected_tools=expected).score

    # The first entry takes the call of the second one: 1/2 and 1/3.
    assert score(*GREEDY, **SHARED) == (1 / 2 + 1 / 3) / 2
    assert recall(*GREEDY) == 1.0
    twice = [call("a", x=1), call("a", x=1)]
    assert (score([expect("a", count=2)], twice), recall([expect("a", count=2)], twice)) == (0.5, 1.0)
    server = [call("mcp__s__a")]
    assert (score([expect("a")], server), recall([expect("a")], server)) == (0.0, 1.0)
    truth = [call("a", x=True)]
    assert (score([expect("a", {"x": 1})], truth, **SHARED), recall([expect("a", {"x": 1})], truth)) == (1.0, 0.0)
    more = [call("a"), call("b"), call("c")]
    assert score([expect("a")], more) == 1.0
    assert ToolCorrectnessMetric().compute(tool_invocations=more, expected_tools=[expect("a")]).score == 0.5


def test_a_trajectory_comes_first_and_the_order_of_an_expectation_plays_no_part() -> None:
    evaluator = DeepEvalToolCorrectnessEvaluator(threshold=None)
    made = [call("b"), call("a")]
    both = ToolExpectation((expect("a"), expect("b")), "strict")
    result = evaluator.compute(tool_invocations=made, expected_tools=both)
    assert (result.score, result.passed) == (1.0, None)
    assert dict(result.metadata) == {"expected_calls": 2, "calls": 2}
    result = evaluator.compute(tool_invocations=made, expected_tools=both, expected_trajectory=[expect("c")])
    assert result.score == 0.0
    with pytest.raises(EvaluationError, match="needs expected_trajectory or expected_tools") as caught:
        evaluator.compute(tool_invocations=made)
    assert caught.value.code == "missing_input"


def test_hostile_names_and_values_are_text() -> None:
    marker, bell = "[DEEPEVAL:IMAGE:/etc/passwd]", "a\n\u202e\x1b[2J"
    expected = [expect(marker, {"q": marker}), expect("b", {"q": "\ud800"})]
    result = DeepEvalToolCorrectnessEvaluator(**SHARED).compute(
        tool_invocations=[call(marker, q=marker), call(bell, q="x" * 10_000), call("c" * 100_000)],
        expected_tools=expected,
    )
    assert result.score == 0.5
    assert len(result.reasoning) <= 4_100
    assert result.reasoning.isprintable()
    assert 'missing tools [b(q="\\ud800")]; expected' in result.reasoning


def test_what_deepeval_cannot_do_is_an_error() -> None:
    evaluator = DeepEvalToolCorrectnessEvaluator(**SHARED)
    deep: Any = 1
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(DeepEvalError, match="RecursionError"):
        evaluator.compute(tool_invocations=[call("a", q=deep)], expected_tools=[expect("a", {"q": 1})])
    with pytest.raises(EvaluationError, match=r"1000 expected calls and 1001 calls made are too many") as caught:
        evaluator.compute(tool_invocations=[call("a")] * 1001, expected_tools=[expect("a", {}, count=1000)])
    assert caught.value.code == "too_many_calls"
    with pytest.raises(EvaluationError, match="too many for DeepEval to compare"):
        evaluator.compute(tool_invocations=[], expected_tools=[expect("a", count=10**12)])
    with pytest.raises(EvaluationError, match=r"a\(q=\"x\" \(fuzzy\)\): DeepEval compares only plain values") as caught:
        evaluator.compute(tool_invocations=[], expected_tools=[expect("a", {"q": fuzzy("x")})])
    assert caught.value.code == "invalid_input"
    with pytest.raises(ValueError, match="input_parameters"):
        DeepEvalToolCorrectnessEvaluator(evaluation_params=["output"])
    # Where arguments play no part, matchers do not either.
    assert score([expect("a", {"q": pattern("x+")})], [call("a", q=1)]) == 1.0


CASES: list[dict[str, Any]] = [
    {"name": "right", "input": "?", "expected_tools": ["search", {"name": "refund", "args": {"id": 7}}]},
    {"name": "half", "input": "?", "expected_tools": ["search", "search"]},
]
MADE = [
    {"name": "search", "args": {"q": 1}, "result": "found"},
    {"name": "refund", "args": {"id": 7}, "result": "done"},
]
ROWS = [
    {"case": "right", "response": "Done.", "tool_invocations": MADE},
    {"case": "half", "response": "Done.", "tool_invocations": [MADE[0], {**MADE[0], "args": {"q": 1}}]},
]


@pytest.fixture
def recorded(project: Project) -> Project:
    entry = {"type": KIND, "threshold": 0.6, "should_consider_ordering": True, "timeout_ms": 90_000}
    project.suite(CASES, [entry])
    project.answers(ROWS)
    project.policy(target="recorded:answers.jsonl")
    return project


@pytest.mark.full
def test_a_run_needs_neither_model_nor_key_nor_network(recorded: Project, tmp_path_factory: Any) -> None:
    # The same call twice: what is expected happens, in DeepEval's numbers by order too.
    watch = Watch(tmp_path_factory.mktemp("watch"))
    temporary = recorded.folder / "temporary"
    temporary.mkdir()
    finished, record = recorded.evaluate(**watch.environ, TMPDIR=str(temporary), OPENAI_API_KEY="")
    assert finished.code == 0, finished.stdout + finished.stderr
    right, half = evaluations(record)
    assert (right.evaluator_name, right.status, right.score, right.cost_usd) == (KIND, "completed", 1.0, None)
    assert right.explanation == (
        "Correct ordering: all expected tools ['search', 'refund'] were called in the correct order."
    )
    assert (half.score, half.evaluator_version) == (1.0, "1.0.0")
    criteria = right.criteria
    assert (criteria.kind, criteria.metric, criteria.threshold, criteria.asserts) == (KIND, KIND, 0.6, True)
    assert (criteria.polarity, dict(criteria.settings)) == (
        "maximize",
        {"should_consider_ordering": True, "timeout_ms": 90_000},
    )
    assert dict(right.metadata) == {"expected_calls": 2, "calls": 2}
    assert record.run.model_calls is None
    inside = str(recorded.folder)
    # Nothing but the process of DeepEval is started.
    done = [
        what for what in watch.seen("program") if what[0] != "write" or not what[1].startswith((inside, "/dev/null"))
    ]
    assert done == [PLUGINS, ["process", sys.executable]]
    done = [what for what in watch.seen("libraries") if not what[1].startswith((*HARMLESS, str(temporary)))]
    assert {what[0] for what in done} == {"environment"}


@pytest.mark.full
def test_a_score_below_the_threshold_fails_and_says_why_in_the_same_words_every_time(recorded: Project) -> None:
    many = {"name": "many", "input": "?", "expected_tools": [*"abcdefgh"]}
    ordered = {"type": KIND, "should_consider_ordering": True}
    recorded.suite(
        [CASES[1], many], [{"type": KIND, "threshold": 0.6}, ordered, {"type": "composite", "metrics": [ordered]}]
    )
    recorded.answers([ROWS[1], {"case": "many", "response": "ok", "tool_invocations": MADE}])
    explained = []
    for seed in ("1", "2"):
        finished, record = recorded.evaluate(PYTHONHASHSEED=seed)
        assert finished.code == 1, finished.stdout + finished.stderr
        found = evaluations(record)
        assert [each.score for each in found] == [0.5, 1.0, 1.0, 0.0, 0.0, 0.0]
        explained.append([each.explanation for each in found])
        assert "Incomplete tool usage" in finished.stdout
    assert explained[0] == explained[1]
    assert explained[0][0] == (
        "Incomplete tool usage: missing tools [search]; expected ['search', 'search'], called ['search', 'search']."
    )


def test_strict_mode_leaves_no_score_between_0_and_1(recorded: Project) -> None:
    recorded.suite(CASES, [{"type": KIND, "strict_mode": True}])
    finished, record = recorded.evaluate()
    assert finished.code == 1, finished.stdout + finished.stderr
    assert [(found.score, found.criteria.threshold) for found in evaluations(record)] == [(1.0, 1.0), (0.0, 1.0)]


def test_a_trajectory_is_of_the_whole_conversation(project: Project) -> None:
    project.suite([{"name": "talk", "turns": [{"input": "one"}, {"input": "two"}]}], [{"type": KIND}])
    project.answers(
        [{"case": "talk", "turn": turn, "response": "ok", "tool_invocations": [MADE[turn]]} for turn in (0, 1)]
    )
    overlay = {"talk": {"expected_trajectory": [{"name": "search"}, {"name": "refund"}]}}
    project.policy(target="recorded:answers.jsonl", cases=overlay)
    finished, record = project.evaluate()
    assert finished.code == 0, finished.stdout + finished.stderr
    assert [(found.status, found.score) for found in evaluations(record)] == [("skipped", None), ("completed", 1.0)]


def test_a_case_without_expected_tools_is_skipped_or_in_error_where_it_asks_itself(recorded: Project) -> None:
    bare = {"name": "bare", "input": "?"}
    own = {"name": "own", "input": "?", "evaluations": [{"type": KIND}]}
    recorded.suite([*CASES[:1], bare, own], [{"type": KIND}])
    recorded.answers([ROWS[0], *({"case": name, "response": "ok", "tool_invocations": []} for name in ("bare", "own"))])
    finished, record = recorded.evaluate()
    assert finished.code == 3
    assert [(found.status, (found.explanation or "")[:60]) for found in evaluations(record)[1:]] == [
        ("skipped", "does not apply: the turn has no expected_tools"),
        ("failed", "it needs expected_tools, which the case does not give"),
    ]


@pytest.mark.full
def test_without_deepeval_the_run_is_refused(recorded: Project, tmp_path_factory: Any) -> None:
    folder: Path = tmp_path_factory.mktemp("without")
    (folder / "sitecustomize.py").write_text(
        "import sys\n\nclass Without:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] == 'deepeval':\n"
        "            raise ModuleNotFoundError('No module named deepeval', name=name)\n\n"
        "sys.meta_path.insert(0, Without())\n"
    )
    finished = recorded.run("run", PYTHONPATH=f"{folder}:{ROOT}")
    assert finished.code == 2
    assert (
        f"{KIND}: needs packages that are not installed: run pip install 'holodeck-action[judges]'; "
        "or set enabled: false to leave it out"
    ) in finished.stderr
    recorded.suite(CASES, [{"type": "composite", "metrics": [{"type": KIND}, {"type": "length", "max_words": 9}]}])
    assert recorded.run("run", PYTHONPATH=f"{folder}:{ROOT}").code == 2
    recorded.suite(CASES, [{"type": KIND, "enabled": False}])
    assert recorded.run("run", PYTHONPATH=f"{folder}:{ROOT}").code in (0, 1)


@pytest.mark.full
def test_a_deepeval_that_cannot_be_imported_is_an_error_of_the_evaluation(
    recorded: Project, tmp_path_factory: Any
) -> None:
    folder: Path = tmp_path_factory.mktemp("broken")
    (folder / "deepeval").mkdir()
    (folder / "deepeval" / "__init__.py").write_text("1 / 0\n")
    finished, record = recorded.evaluate(PYTHONPATH=f"{folder}:{ROOT}")
    assert finished.code == 3
    assert [found.error and found.error.code for found in evaluations(record)] == ["not_importable"] * 2


def agent(entry: str, *cases: str) -> str:
    return f"{HEAD}evaluations: {{metrics: [{entry}]}}\ntest_cases:\n" + "".join(f"- {case}\n" for case in cases)


ALLOWED = (
    "(allowed: enabled, evaluation_params, fail_on_error, name, retry_on_failure, should_consider_ordering, "
    "should_exact_match, strict_mode, threshold, timeout_ms, type)"
)
CALLED = "{input: a, expected_tools: [{name: f, args: {q: 1}}]}"


@walk(
    ("setting", "complaint"),
    [
        (
            "available_tools: [f]",
            (
                "available_tools: unknown key: they would need a judge, and this metric has none: type "
                f"trajectory_accuracy has one {ALLOWED}"
            ),
        ),
        ("model: {provider: ollama, name: m}", f"model: unknown key {ALLOWED}"),
        ("judges: {}", f"judges: unknown key {ALLOWED}"),
        (
            "evaluation_params: [output]",
            "evaluation_params[0]: output cannot be compared: expected_tools do not describe results (allowed: "
            "input_parameters)",
        ),
        (
            "evaluation_params: [input]",
            'evaluation_params[0]: "input" is not allowed (allowed: input_parameters)',
        ),
        ("threshold: 2", "threshold: 2 is out of range (allowed: 0 to 1)"),
        ("strict_mode: maybe", "strict_mode: must be true or false"),
    ],
)
def test_options_that_are_refused(tmp_path: Path, setting: str, complaint: str) -> None:
    (found,) = complaints(tmp_path, agent(f"{{type: {KIND}, {setting}}}", CALLED))
    assert found.partition("evaluations.metrics[0].")[2] == complaint


def test_expected_calls_that_deepeval_cannot_express_are_refused(tmp_path: Path) -> None:
    compared = f"{{type: {KIND}, evaluation_params: [input_parameters]}}"
    cases = (
        CALLED,
        "{input: b, expected_tools: [{name: f, args: {}}, {name: g, args: {q: {fuzzy: x}}}, h]}",
        "{input: c, expected_tools: [{name: f, args: {q: {regex: x}}}], evaluations: [{metric: equality}]}",
    )
    found = complaints(tmp_path, agent(compared, *cases))
    places, reasons = zip(*(each.split(": expected_tools", 1) for each in found), strict=True)
    assert places == ("agent.yaml:7:3",) * 2
    assert reasons == (
        f'[1]: "{KIND}" (agent.yaml:4:25) cannot grade this: DeepEval compares only plain values, but the argument "q" '
        "is a fuzzy matcher: write the value itself, or use type tool_correctness",
        f'[2]: "{KIND}" (agent.yaml:4:25) cannot grade this: it gives no args, but arguments are compared: '
        "give its args ({} for none)",
    )
    assert len(complaints(tmp_path, agent(f"{{type: composite, metrics: [{compared}]}}", *cases))) == 2
    # Names alone are compared.
    assert complaints(tmp_path, agent(f"{{type: {KIND}}}", *cases[:2])) == []
    disabled = f"{{type: {KIND}, evaluation_params: [input_parameters], enabled: false}}"
    assert complaints(tmp_path, agent(disabled, *cases[:2])) == []


def test_a_threshold_that_strict_mode_overrules_is_told(tmp_path: Path) -> None:
    suite = load(tmp_path, agent(f"{{type: {KIND}, strict_mode: true, threshold: 0.2}}", CALLED))
    told = f"agent.yaml:4:25: threshold has no effect on {KIND} with strict_mode: it is 1"
    assert suite.notices == (told,)
    for entry in ("strict_mode: true", "strict_mode: true, threshold: 1", "threshold: 0.2"):
        assert load(tmp_path, agent(f"{{type: {KIND}, {entry}}}", CALLED)).notices == ()


def test_other_settings_have_another_label(tmp_path: Path) -> None:
    entries = f"{{type: {KIND}}}, {{type: {KIND}, strict_mode: true}}"
    suite = load(tmp_path, agent(entries, CALLED))
    labels = [spec.label for spec in suite.cases[0].turns[0].metrics]
    assert len(set(labels)) == 2
