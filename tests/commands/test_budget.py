"""Budgets, plans and what a run says of its model calls: real processes against a model server on loopback."""

from __future__ import annotations

import json
import math
import re
from typing import Any

import pytest

from holodeck_action.llm.usage import cost_usd
from holodeck_action.record.result_files import read_record
from tests.action.step import Step
from tests.commands.project import Project
from tests.llm.models import KEY, Answer, FakeModels, Request, counted_echo

pytestmark = pytest.mark.models(answer=counted_echo, latency=0.02)
TOKENS = 90
"""Tokens that an answer of the server takes with its prompt."""
PRICE = cost_usd("openai", "gpt-4o", prompt_tokens=40, completion_tokens=50)


@pytest.fixture
def step(project: Project) -> Step:
    return Step(project)


def asking(project: Project, models: FakeModels, count: int = 12, *, turns: int = 1, **model: Any) -> None:
    """Write a suite of cases that an echo passes; an answer has at most 100 tokens."""
    cases: list[dict[str, Any]] = []
    for at in range(count):
        texts = [f"say {at} {turn}" for turn in range(turns)]
        asked = [{"input": text, "ground_truth": f"echo: {text}"} for text in texts]
        cases.append({"name": f"case {at}", **(asked[0] if turns == 1 else {"turns": asked})})
    given = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "max_tokens": 100}
    project.suite(cases, model={**given, **model})


def run(project: Project, *arguments: str, **environ: str) -> Any:
    return project.run("run", *arguments, OPENAI_API_KEY=KEY, **environ)


# -- budgets


def limits(name: str, value: float, place: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A policy and flags that give a budget in one of two places."""
    if place == "policy":
        return {"budget": {name: value}}, ()
    # The flag wins over the policy file, which would allow far more.
    return {"budget": {name: 1_000_000}}, (f"--{name.replace('_', '-')}", f"{value:g}")


@pytest.mark.proves("Budget: max_cost_usd max_tokens", "run: --max-cost-usd --max-tokens")
@pytest.mark.parametrize("place", ["policy", "flag"])
@pytest.mark.parametrize("name", ["max_cost_usd", "max_tokens"])
def test_a_budget_stops_the_run(project: Project, models: FakeModels, name: str, place: str) -> None:
    assert PRICE is not None
    unit = PRICE if name == "max_cost_usd" else TOKENS
    limit = unit * 8.5
    policy, flags = limits(name, limit if name == "max_cost_usd" else int(limit), place)
    asking(project, models)
    project.policy(**policy)
    finished = run(project, "-o", "out", *flags)
    assert finished.code == 4, finished.stdout + finished.stderr
    made = len(models.requests)
    assert 1 <= made <= 8
    record = read_record(project.out / "results.json")
    assert record.stopped is not None
    assert re.fullmatch(
        r"the budget of \S+( tokens)? is used up: \S+ of (it spent|them) in \d+ calls, and the next call may \w+ \S+",
        record.stopped,
    )
    assert f"in {made} calls" in record.stopped
    # Every paid answer is in the report, and who was not asked is named.
    assert [len(case.trials) for case in record.cases].count(1) == made
    assert f"{made} passed, 0 failed, 0 in error, {12 - made} not run" in finished.stdout
    assert finished.stdout.count("not run: the run stopped before this case") == 12 - made
    calls = record.run.model_calls
    assert calls is not None
    assert (calls.calls - calls.failed, calls.requests, calls.tokens) == (made, made, made * TOKENS)
    assert calls.cost_usd is not None
    assert math.isclose(calls.cost_usd, made * PRICE)


def test_a_budget_that_is_wide_enough_changes_nothing(project: Project, models: FakeModels) -> None:
    asking(project, models)
    finished = run(project, "--max-cost-usd", "1", "--max-tokens", "100000")
    assert finished.code == 0, finished.stdout + finished.stderr
    assert len(models.requests) == 12


def test_a_budget_of_nothing_asks_nothing(project: Project, models: FakeModels) -> None:
    asking(project, models)
    finished = run(project, "--max-cost-usd", "0")
    assert finished.code == 4
    assert models.requests == []
    assert "the budget of $0.00 is used up: $0.00 of it spent in 0 calls" in finished.stdout


def test_what_has_failed_stays_failed_and_the_rest_was_not_run(project: Project, models: FakeModels) -> None:
    asking(project, models, 1, turns=2)
    document = json.loads((project.folder / "agent.yaml").read_text())
    document["test_cases"][0]["turns"][0]["ground_truth"] = "something else"
    project.write("agent.yaml", json.dumps(document))
    finished, record = project.evaluate("--max-tokens", "200", OPENAI_API_KEY=KEY)
    assert len(models.requests) == 1
    # A definite violation comes before the stop.
    assert finished.code == 1, finished.stdout + finished.stderr
    first, second = record.cases[0].trials[0].turns
    assert first.response is not None
    assert second.error is not None
    assert second.error.code == "budget_exhausted"
    # Where nothing has failed yet, the conversation was not run.
    asking(project, models, 1, turns=2)
    finished, record = project.evaluate("--max-tokens", "200", OPENAI_API_KEY=KEY)
    assert finished.code == 4, finished.stdout + finished.stderr
    assert record.cases[0].trials == ()


def test_a_run_that_stopped_at_its_budget_can_be_continued(project: Project, models: FakeModels) -> None:
    asking(project, models, turns=2)
    stopped = run(project, "-o", "out", "--max-tokens", "700", "--concurrency", "2")
    assert stopped.code == 4, stopped.stdout + stopped.stderr
    done = sum(len(case.trials) for case in read_record(project.out / "results.json").cases)
    assert 0 < done < 12
    finished, record = project.evaluate("--resume", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stdout + finished.stderr
    assert record.run.resumed_trials == done
    assert record.run.model_calls is not None
    assert record.run.model_calls.calls == 2 * (12 - done)


def test_a_budget_of_the_command_line_holds_for_all_suites(project: Project, models: FakeModels) -> None:
    for name in ("one", "two", "three"):
        asking(Project(project.folder / name), models, 4)
    finished = run(project, "*/agent.yaml", "-o", "out", "--max-tokens", "600", "--concurrency", "1")
    assert finished.code == 4, finished.stdout + finished.stderr
    # The first suite by name, and a part of the second.
    assert len(models.requests) == 6
    verdict = json.loads((project.out / "verdict.json").read_bytes())
    assert [suite["outcome"] for suite in verdict["suites"]] == ["passed", "stopped"]
    assert verdict["not_run"] == ["two/agent.yaml"]


def test_a_budget_of_the_policy_file_holds_for_its_suite(project: Project, models: FakeModels) -> None:
    for name in ("one", "two"):
        inner = Project(project.folder / name)
        asking(inner, models, 4)
        inner.policy(budget={"max_tokens": 300 if name == "one" else 10_000})
    finished = run(project, "*/agent.yaml", "-o", "out", "--concurrency", "1")
    assert finished.code == 4, finished.stdout + finished.stderr
    verdict = json.loads((project.out / "verdict.json").read_bytes())
    assert [suite["outcome"] for suite in verdict["suites"]] == ["stopped", "passed"]
    assert verdict["not_run"] == []


def verdict(project: Project) -> dict[str, Any]:
    """The verdict of the last run; the digest of its results differs, which hold when it ran."""
    found: dict[str, Any] = json.loads((project.out / "verdict.json").read_bytes())
    del found["results_digest"]
    return found


def test_what_is_replayed_or_cached_is_not_spent(project: Project, models: FakeModels) -> None:
    asking(project, models)
    project.policy(gates={"max_cost_usd": 1, "max_total_tokens": 100_000, "p95_latency_ms": 60_000})
    assert run(project, "-o", "out", "--record", "tape", "--cache", "kept").code == 0
    before = verdict(project)
    asked = len(models.requests)
    for source in ("--cache", "--replay"):
        finished = run(project, "-o", "out", source, "kept" if source == "--cache" else "tape", "--max-cost-usd", "0")
        assert finished.code == 0, finished.stdout + finished.stderr
        # The gates see the original cost, tokens and time.
        assert verdict(project) == before
        assert "12 model calls, all replayed, list price $0.0072\n" in finished.stdout
        assert finished.stderr.endswith("$0.0072\n")
    assert len(models.requests) == asked == 12


@pytest.mark.parametrize("flags", [("--max-cost-usd", "1"), ()])
@pytest.mark.parametrize("command", [("run",), ("run", "--dry-run")])
def test_a_budget_in_dollars_needs_a_price(
    project: Project, models: FakeModels, flags: tuple[str, ...], command: tuple[str, ...]
) -> None:
    asking(project, models, provider="ollama", name="llama3", endpoint=models.ollama_url)
    if not flags:
        project.policy(budget={"max_cost_usd": 1})
    finished = project.run(*command, *flags)
    assert finished.code == 2
    assert (
        "the price of Ollama model llama3 is unknown, so a budget in US dollars cannot be enforced: set a budget "
        "in tokens (--max-tokens, or budget.max_tokens), or remove max-cost-usd"
    ) in finished.stderr
    assert models.requests == []
    project.policy()
    assert project.run("run", "--max-tokens", "100000").code == 0


def test_a_budget_says_that_it_does_not_limit_another_target(project: Project) -> None:
    project.numbered(1)
    finished = project.run("run", "--max-cost-usd", "1")
    assert finished.code == 0
    note = "agent.yaml: the budget does not limit recorded:answers.jsonl, only calls of a suite's own model"
    assert note in finished.stderr


@pytest.mark.parametrize("flag", ["--max-cost-usd=-1", "--max-cost-usd=nan", "--max-tokens=-1", "--max-tokens=1.5"])
def test_a_budget_is_a_number(project: Project, flag: str) -> None:
    project.numbered(1)
    assert project.run("run", flag).code == 2


# -- gates


@pytest.mark.proves("Gates: max_cost_usd max_total_tokens")
@pytest.mark.parametrize("name", ["max_cost_usd", "max_total_tokens"])
def test_a_gate_on_what_was_spent_changes_the_exit_code(project: Project, models: FakeModels, name: str) -> None:
    assert PRICE is not None
    spent = 3 * (PRICE if name == "max_cost_usd" else TOKENS)
    asking(project, models, 3)
    for limit, code in ((spent, 0), (spent - 1e-6 if name == "max_cost_usd" else spent - 1, 1)):
        project.policy(gates={name: limit})
        finished = run(project)
        assert finished.code == code, finished.stdout + finished.stderr


@pytest.mark.parametrize("name", ["max_cost_usd", "max_total_tokens"])
def test_a_gate_on_what_a_target_does_not_tell_is_refused(project: Project, name: str) -> None:
    project.numbered(1)
    project.policy(target="recorded:answers.jsonl", gates={name: 1000})
    finished = project.run("run")
    assert finished.code == 2
    assert f"agent.yaml: gates.{name} cannot be judged: recorded:answers.jsonl does not report" in finished.stderr


def test_a_cost_that_is_not_known_leaves_the_run_incomplete(project: Project, models: FakeModels) -> None:
    asking(project, models, provider="ollama", name="llama3", endpoint=models.ollama_url)
    project.policy(gates={"max_cost_usd": 1000})
    finished = project.run("run")
    assert finished.code == 3, finished.stdout + finished.stderr
    unknown = "the usage of 12 turns and evaluations is unknown"
    told = f"$0 spent; at most $1,000 is allowed; {unknown} (cannot be decided) (max_cost_usd)"
    assert told in finished.stdout


def test_the_working_time_of_the_models_is_what_p95_judges(project: Project) -> None:
    with FakeModels(keys=[KEY], latency=0.3) as models:
        asking(project, models, 2)
        for limit, code in ((250, 1), (60_000, 0)):
            project.policy(gates={"p95_latency_ms": limit})
            finished, record = project.evaluate(OPENAI_API_KEY=KEY)
            assert finished.code == code, finished.stdout + finished.stderr
        timing = record.cases[0].trials[0].turns[0].timing
        assert timing is not None
        assert timing.model_ms is not None
        assert 250 < timing.model_ms <= (timing.duration_ms or 0)


@pytest.mark.parametrize(
    ("metric", "key", "instead"),
    [("equality", "min_lower_bound", "min_mean"), ("toxicity", "max_upper_bound", "max_mean")],
)
def test_an_end_of_a_mean_s_interval_needs_enough_cases(project: Project, metric: str, key: str, instead: str) -> None:
    project.numbered(9)
    project.policy(
        target="recorded:answers.jsonl",
        metrics=[{"type": "toxicity"}] if metric == "toxicity" else [],
        gates={"metrics": {metric: {key: 0.5}}},
    )
    finished = project.run("run", OPENAI_API_KEY=KEY)
    assert finished.code == 2
    assert (
        f"gates.metrics.{metric}.{key} needs 10 cases with a score, but only 9 case(s) outside the "
        f"quarantine can have one; run more cases, or use {instead}"
    ) in finished.stderr


# -- plans


@pytest.mark.proves("run: --dry-run")
def test_a_dry_run_prints_the_plan_and_sends_nothing(project: Project, models: FakeModels) -> None:
    asking(project, models, turns=2)
    finished = run(project, "-o", "out", "--dry-run", "--repeat", "3", "--min-pass", "2", "--max-tokens", "9")
    assert finished.code == 0, finished.stderr
    plan, conversations, budget = finished.stdout.splitlines()
    assert conversations == "plan: agent.yaml: conversations: 10 at the same time"
    found = re.fullmatch(
        r"plan: agent\.yaml: 12 cases, 24 to 36 trials: at least 48 calls of openai/gpt-4o, about ([\d,]+) to ([\d,]+) "
        r"prompt tokens, from \$([\d.]+) \(answers empty, no calls of tools\) to \$([\d.]+) \(answers of 100 tokens\)",
        plan,
    )
    assert found is not None, plan
    low, high, least, most = (float(group.replace(",", "")) for group in found.groups())
    # In the second turn of a conversation its first answer is sent again.
    assert high == low * 36 / 24 + 36 * 100
    assert math.isclose(least, low * 2.5e-6, abs_tol=1e-4)
    assert math.isclose(most, high * 2.5e-6 + 72 * 100 * 1e-5, abs_tol=1e-4)
    assert budget == "budget of the run: 9 tokens, less than the minimum of the plan: the run will stop early"
    assert (models.requests, finished.stderr, project.out.exists()) == ([], "", False)


GROWS = "10 at the same time at first, and up to {} while nothing is refused and answers do not become slower"
SITUATIONS: tuple[Any, ...] = (
    ({}, {}, (), GROWS.format(12)),
    ({}, {}, ("--repeat", "20"), GROWS.format(100)),
    ({}, {}, ("--concurrency", "10"), "10 at the same time"),
    ({}, {"limits": {"concurrency": 12}}, (), "12 at the same time"),
    ({"execution": {"parallel_test_cases": 3}}, {}, (), "3 at the same time"),
    ({}, {"budget": {"max_tokens": 10**9}}, (), GROWS.format(12)),
    ({}, {}, ("--max-cost-usd", "1000"), GROWS.format(12)),
    (
        {
            "tools": [
                {
                    "name": "t",
                    "description": "d",
                    "type": "prompt",
                    "template": "{{ a }}",
                    "parameters": {"a": {"type": "string", "description": "d"}},
                }
            ]
        },
        {},
        (),
        GROWS.format(12),
    ),
    pytest.param(
        {"tools": [{"name": "t", "description": "d", "type": "mcp", "command": "npx", "transport": "stdio"}]},
        {},
        (),
        "10 at the same time",
        marks=pytest.mark.needs("mcp"),
    ),
    ({}, {"stop": "certain"}, (), "10 at the same time"),
    (
        {"model": {"provider": "openai", "name": "m", "endpoint": "https://models.example.com/v1"}},
        {},
        (),
        GROWS.format(12),
    ),
    ({"model": {"provider": "openai", "name": "m", "endpoint": "https://10.1.2.3/v1"}}, {}, (), "10 at the same time"),
    ({"model": {"provider": "openai", "name": "m", "endpoint": "https://vllm:8000/v1"}}, {}, (), "10 at the same time"),
    ({"model": {"provider": "openai", "name": "m", "endpoint": "http://[::1]/v1"}}, {}, (), "10 at the same time"),
    (
        {"model": {"provider": "ollama", "name": "m", "endpoint": "https://x.example.com/v1"}},
        {},
        (),
        "10 at the same time",
    ),
)


@pytest.mark.parametrize(("suite", "policy", "arguments", "expected"), SITUATIONS)
def test_more_than_ten_conversations_are_tried_only_if_nothing_speaks_against_it(
    project: Project, suite: dict[str, Any], policy: dict[str, Any], arguments: tuple[str, ...], expected: str
) -> None:
    cases = [{"name": f"c{number}", "input": "ping", "ground_truth": "pong"} for number in range(12)]
    given = {"model": {"provider": "openai", "name": "gpt-4o", "max_tokens": 9}, "instructions": {"inline": "Answer."}}
    project.suite(cases, **{**given, **suite})
    if policy:
        project.policy(**policy)
    finished = project.run("run", "--dry-run", *arguments, OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stderr
    assert f"plan: agent.yaml: conversations: {expected}\n" in finished.stdout


def test_a_run_says_its_plan_before_it_asks(project: Project, models: FakeModels) -> None:
    asking(project, models)
    project.policy(budget={"max_cost_usd": 2})
    finished = run(project)
    assert finished.code == 0, finished.stderr
    assert "plan: agent.yaml: 12 cases, 12 trials: at least 12 calls of openai/gpt-4o" in finished.stderr
    assert "\nbudget of agent.yaml: $2.00\n" in finished.stderr
    assert "plan:" not in finished.stdout


def test_the_plan_is_kept_where_every_answer_is_as_long_as_it_may_be(project: Project, models: FakeModels) -> None:
    def longest(request: Request) -> Answer:
        size = sum(len(message.text) for message in request.messages) // 4
        return Answer(f"echo: {request.text}", prompt_tokens=size, completion_tokens=100)

    models.answer(longest)
    asking(project, models)
    planned = run(project, "--dry-run").stdout
    _, record = project.evaluate(OPENAI_API_KEY=KEY)
    most = float(re.findall(r"\$([\d.]+)", planned)[1])
    assert record.run.model_calls is not None
    assert record.run.model_calls.cost_usd == pytest.approx(most, rel=0.05)


def test_what_asks_no_model_says_so(project: Project, models: FakeModels) -> None:
    project.numbered(2)
    finished = project.run("run", "--dry-run")
    assert (finished.code, finished.stdout) == (
        0,
        "plan: agent.yaml: 2 cases, no model calls: recorded:answers.jsonl answers\n",
    )
    assert "plan:" not in project.run("run").stderr
    project.policy()
    asking(project, models)
    replayed = project.run("run", "--dry-run", "--replay", "tape")
    assert (replayed.code, "no model calls: answers are replayed from " in replayed.stdout) == (0, True)


def judged_by(project: Project, metrics: list[dict[str, Any]], **policy: Any) -> str:
    """The plan for two cases `what is 0?` with recorded answers, and at most three trials."""
    project.numbered(2)
    trials = {"repeat": 3, "min_pass": 1}
    project.policy(target="recorded:answers.jsonl", metrics=metrics, trials=trials, **policy)
    finished = project.run("run", "--dry-run", OPENAI_API_KEY=KEY)
    assert finished.code == 0, finished.stderr
    return finished.stdout


def judge(name: str, provider: str = "openai", **more: Any) -> dict[str, Any]:
    return {"provider": provider, "name": name, "endpoint": "http://127.0.0.1:9/v1", **more}


RELEVANCY = {"type": "rag", "metric_type": "answer_relevancy"}


@pytest.mark.needs
def test_the_plan_counts_the_calls_of_judges(project: Project) -> None:
    metrics = [{**RELEVANCY, "model": judge("gpt-4o-mini", max_tokens=500)}]
    # 3 calls for each of 2 to 6 answers. A call: 300 tokens, 3 for the question and 1 for the expected answer, and at
    # most 1000 for the answer, at $0.15 a million; a verdict at most 500 at $0.60.
    # 6 · 304 · 0.15 / 10⁶ = 0.0002736, and 18 · (1304 · 0.15 + 500 · 0.60) / 10⁶ = 0.0089208.
    assert judged_by(project, metrics) == (
        "plan: agent.yaml: 2 cases, recorded:answers.jsonl answers; 2 to 6 evaluations by judges: about 6 to 18 calls "
        "of openai/gpt-4o-mini, from $0.000274 (verdicts empty) to $0.008921 (verdicts of 500 tokens)\n"
    )


@pytest.mark.needs
def test_the_plan_counts_every_judge_of_a_panel(project: Project) -> None:
    tone = {"type": "geval", "name": "Tone", "criteria": "polite"}
    alone = {"type": "geval", "name": "Alone", "criteria": "c", "evaluation_steps": ["s"], "model": judge("gpt-4o")}
    alone["judges"] = {"models": [], "fallback_models": []}
    panel = {
        "models": [judge("gpt-4o"), judge("gpt-4o"), judge("gpt-4o-mini")],
        "fallback_models": [judge("gpt-4.1")],
    }
    plan = judged_by(project, [tone, RELEVANCY, alone], judges=panel, budget={"max_cost_usd": 0.01})
    # Of 2 to 6 answers: gpt-4o is asked twice for each of 1 + 3 calls and once alone, gpt-4o-mini once for each of the
    # four; both write the steps of Tone once, which takes 300 tokens.
    found = re.search(
        r"; 6 to 18 evaluations by judges: about 19 to 55 calls of openai/gpt-4o and 9 to 25 calls of "
        r"openai/gpt-4o-mini, from \$([\d.]+) \(verdicts empty\) to \$([\d.]+) \(verdicts of 4,096 tokens\); calls "
        r"of fallback models are added if a judge gives no verdict\nbudget of agent.yaml: \$0.01, "
        r"less than the minimum of the ",
        plan,
    )
    assert found is not None, plan
    least = (18 * 304 + 300) * 2.5e-6 + (8 * 304 + 300) * 0.15e-6
    most = (54 * 1304 + 300) * 2.5e-6 + 55 * 4096 * 10e-6 + (24 * 1304 + 300) * 0.15e-6 + 25 * 4096 * 0.60e-6
    assert [float(price) for price in found.groups()] == [pytest.approx(least, abs=1e-4), pytest.approx(most, abs=0.01)]


@pytest.mark.needs
def test_the_plan_counts_the_parts_of_presets_and_composites(project: Project) -> None:
    own = {"completeness": {"model": judge("o3", max_tokens=9)}, "redundancy": {"criteria": "brief"}}
    preset = {"type": "generation", "model": judge("llama3", "ollama"), "metrics": own}
    parts = [preset, {"type": "refusal", "expect": "as_expected_output"}, {"type": "length", "max_words": 9}]
    plan = judged_by(project, [{"type": "composite", "metrics": parts}], judges={"models": [judge("gpt-4o")] * 2})
    # The panel of the policy file takes refusal, groundedness and redundancy, whose steps it writes, and the two calls
    # of the other refusal; completeness has its own model.
    assert "2 to 6 evaluations by judges: about 21 to 61 calls of openai/gpt-4o and 2 to 6 calls of openai/o3" in plan


@pytest.mark.needs
def test_a_judge_without_a_price_is_named_in_the_plan(project: Project) -> None:
    models = {"models": [judge("gpt-4o", max_tokens=10), judge("llama3", "ollama", max_tokens=20)]}
    plan = judged_by(project, [RELEVANCY], judges=models)
    assert "6 to 18 calls of ollama/llama3 and 6 to 18 calls of openai/gpt-4o, from $" in plan
    assert plan.endswith("(verdicts of 10 to 20 tokens) and the unknown price of ollama/llama3\n")
    plan = judged_by(project, [{**RELEVANCY, "model": judge("llama3", "ollama")}])
    assert plan.endswith("6 to 18 calls of ollama/llama3, price unknown\n")


@pytest.mark.needs
def test_judges_that_are_replayed_cost_nothing(project: Project, models: FakeModels) -> None:
    project.numbered(2)
    project.policy(target="recorded:answers.jsonl", metrics=[{**RELEVANCY, "model": judge("gpt-4o")}])
    project.write("tape/.keep", "")
    finished = project.run("run", "--dry-run", "--replay", "tape")
    assert finished.stdout == "plan: agent.yaml: 2 cases, no model calls: recorded:answers.jsonl answers\n"


def test_a_price_that_is_not_known_is_said_to_be_so(project: Project, models: FakeModels) -> None:
    asking(project, models, provider="ollama", name="llama3", endpoint=models.ollama_url)
    finished = project.run("run", "--dry-run", "--cache", "kept")
    assert finished.code == 0
    assert "prompt tokens, price unknown; cached calls cost nothing\n" in finished.stdout


def test_a_dry_run_finds_what_is_wrong(project: Project, models: FakeModels) -> None:
    asking(project, models, name="gpt-4o", endpoint="https://models.example/v1")
    finished = project.run("run", "--dry-run", OPENAI_API_KEY="")
    assert (finished.code, finished.stdout) == (2, "")
    assert "OPENAI_API_KEY" in finished.stderr


def test_a_step_that_only_plans_publishes_no_verdict(step: Step, models: FakeModels) -> None:
    asking(step.project, models)
    ended = step.run({"dry_run": "true", "max_cost_usd": "0.5"}, OPENAI_API_KEY=KEY)
    assert ended.code == 0, ended.text
    assert (ended.outputs["verdict"], ended.outputs["results-path"], ended.outputs["passed"]) == ("", "", "")
    for shown in (ended.text, ended.summary):
        assert "plan: agent.yaml: 12 cases" in shown
        assert "budget of the run: $0.50" in shown
    assert "nothing was evaluated" in ended.summary
    assert models.requests == []
    assert not (step.project.folder / "holodeck-results").exists()


def test_the_inputs_of_a_step_set_the_budget(step: Step, models: FakeModels) -> None:
    asking(step.project, models)
    ended = step.run({"max_tokens": "600"}, OPENAI_API_KEY=KEY)
    assert (ended.code, ended.outputs["verdict"]) == (4, "stopped")
    assert len(models.requests) <= 6


# -- what was asked


def test_every_report_says_what_was_asked_and_paid(project: Project, models: FakeModels) -> None:
    asking(project, models, 3)
    finished = run(project, "-o", "out")
    assert PRICE is not None
    line = f"3 model calls, {3 * TOKENS} tokens, ${3 * PRICE:.4f}"
    assert f"\n{line}\nPASSED:" in finished.stdout
    assert line in (project.out / "report.md").read_text()
    for form in ("markdown", "html", "console"):
        assert line in project.run("report", "out/results.json", "--format", form).stdout
        assert line not in project.run("report", "out/results.json", "--format", form, "--canonical").stdout


def test_a_cache_that_cannot_be_written_is_told_of(project: Project, models: FakeModels) -> None:
    asking(project, models, 2)
    project.write("kept", "a file, no folder")
    finished = run(project, "--cache", "kept")
    assert finished.code == 0, finished.stderr
    assert finished.stderr.count("note: the cache of model answers could not be used: ") == 1
