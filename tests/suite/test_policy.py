"""The policy file: targets, overlays, gates, quarantine."""

from __future__ import annotations

import math
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holodeck_action.metrics.registry import built_in
from holodeck_action.run.options.action_inputs import INPUTS
from holodeck_action.suite.checks import Z, unreachable_lower_bound
from holodeck_action.suite.model.policy import Gates, Policy
from holodeck_action.suite.model.targets import (
    CommandTarget,
    HttpTarget,
    PythonTarget,
    RecordedTarget,
    parse_target,
)
from holodeck_action.suite.values import ArgumentMatcher, ExpectedTool, Suite
from holodeck_action.suite.yaml.document import Document, MarkedMap
from scripts.build_field_reference import models_below
from tests.suite.folders import EQUALITY, HEAD, complaints, load, load_policy_of
from tests.tables import walk

CASES = """\
test_cases:
- {name: refund after 40 days, input: a, ground_truth: b}
- {name: twin, input: c, ground_truth: d}
- {name: twin, input: e, ground_truth: f}
- {input: g, ground_truth: h}
"""
AGENT = HEAD + EQUALITY + CASES
IDS = ["refund-after-40-days", "twin-12d2e9b2", "twin-5c610365", "case-e6f5cd595fe8"]


def policy_complaints(folder: Path, policy: str, agent: str = AGENT) -> list[str]:
    return [
        line.removeprefix("holodeck-action.yaml:")
        for line in complaints(folder, agent, {"holodeck-action.yaml": policy})
    ]


def policy_of(folder: Path, policy: str) -> Suite:
    return load_policy_of(folder, AGENT, policy)


@pytest.mark.needs
def test_what_loosens_a_refusal_is_no_key(tmp_path: Path) -> None:
    """A pull request can change the file."""
    names = [item.name for item in INPUTS if item.name.startswith("allow-")]
    assert len(names) > 3
    for name in (*names, "env-file", "cluster-insecure"):
        key = name.replace("-", "_")
        assert key not in {each for model in models_below(Policy) for each in model.model_fields}
        [line] = policy_complaints(tmp_path, f"{key}: true")
        assert line.startswith(
            f"1:1: {key}: unknown key: this setting exists only as the option --{name}; "
            "in a workflow, add it as a line of the input `args` (allowed: "
        )


def test_without_a_policy_file_everything_is_at_its_default(tmp_path: Path) -> None:
    policy = load(tmp_path, AGENT).policy
    assert policy == Policy()
    assert policy.gates == Gates(min_pass_rate=1.0, min_completeness=1.0)
    assert (policy.trials.repeat, policy.trials.min_pass, policy.trials.stop_when_decided) == (1, None, True)
    limits = policy.limits
    assert (limits.concurrency, limits.turn_timeout_s, limits.case_timeout_s, limits.run_timeout_s) == (
        10,
        60.0,
        600.0,
        None,
    )
    assert limits.max_response_bytes == 1_000_000
    assert policy.target is None


@pytest.mark.parametrize("text", ["", "# nothing\n", "gates:\nmetrics:\ncases:\ntrials:\nquarantine:\nlimits:\n"])
def test_empty_sections_mean_their_defaults(tmp_path: Path, text: str) -> None:
    assert policy_of(tmp_path, text).policy == Policy()


@walk(
    ("text", "target"),
    [
        ("recorded:runs/a b.jsonl", RecordedTarget(path="runs/a b.jsonl")),
        ("recorded: x.jsonl", RecordedTarget(path="x.jsonl")),
        ("python:app.agent:answer", PythonTarget(reference="app.agent:answer")),
        ("command:node agent.js --fast", CommandTarget(command="node agent.js --fast")),
        ("http:https://agent.internal:8443/chat", HttpTarget(url="https://agent.internal:8443/chat")),
        ("http://localhost:80/x", HttpTarget(url="http://localhost:80/x")),
        ("https://a/x", HttpTarget(url="https://a/x")),
    ],
)
def test_target_as_text(tmp_path: Path, text: str, target: object) -> None:
    assert parse_target(text) == target
    assert policy_of(tmp_path, f"target: '{text}'\n").policy.target == target


FORMS = (
    "must be recorded:PATH, python:MODULE:CALLABLE, langgraph|openai-agents|pydantic-ai:MODULE:AGENT, command:CMD "
    "or http:URL"
)


@pytest.mark.needs
@walk(
    ("text", "message"),
    [
        ("recorded:", FORMS),
        ("recordd:x", FORMS),
        ("x.jsonl", FORMS),
        ("python:app.agent", "must be python:MODULE:CALLABLE, such as python:app.agent:answer"),
        ("python:app agent:f", "must be python:MODULE:CALLABLE, such as python:app.agent:answer"),
        ("http:agent", "must be an http or https URL with a host"),
        ("http:ftp://a", "must be an http or https URL with a host"),
        ("http:http://", "must be an http or https URL with a host"),
        ("http:http://a:b/", "must be an http or https URL with a host"),
    ],
)
def test_target_that_names_nothing(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r".") as raised:
        parse_target(text)
    assert str(raised.value) == message
    assert policy_complaints(tmp_path, f"target: '{text}'\n") == [f"1:9: target: {message}"]


def test_target_as_a_mapping(tmp_path: Path) -> None:
    policy = """\
target:
  type: http
  url: ${BASE}/chat
  headers: {Authorization: "Bearer ${AGENT_TOKEN}", X-Version: 7}
  request: {message: "{{ turn.input }}", nested: [1, {session: "{{ session.id }}"}]}
  response: {text: "$.reply", tool_invocations: "$.tools", retrieval_context: "$.chunks[*].text"}
"""
    suite = load_policy_of(tmp_path, AGENT, policy, environ={"BASE": "https://a", "AGENT_TOKEN": "s3cr3t"})
    target = suite.policy.target
    assert isinstance(target, HttpTarget)
    assert target.kind == "http"
    assert target.url == "https://a/chat"
    assert {name: value.get_secret_value() for name, value in target.headers.items()} == {
        "Authorization": "Bearer s3cr3t",
        "X-Version": "7",
    }
    assert target.request == {"message": "{{ turn.input }}", "nested": [1, {"session": "{{ session.id }}"}]}
    assert target.response is not None
    assert target.response.text == "$.reply"
    assert target.response.retrieved_chunks is None
    assert "s3cr3t" not in repr(suite)


@pytest.mark.needs
@pytest.mark.proves("HttpTarget: type")
@walk(
    ("target", "expected"),
    [
        ("3", f"1:9: target: {FORMS}, or a mapping of type http"),
        ("{type: command, url: 'http://a'}", '1:16: target.type: "command" is not allowed (allowed: http)'),
        ("{type: http}", "1:9: target.url: is missing (required)"),
        ("{url: 'ftp://a'}", "1:15: target.url: must be an http or https URL with a host"),
        (
            "{url: 'http://a', request: {a: '{{ turn.input'}}",
            "1:36: target.request: the template does not parse: unexpected end of template, expected 'end of print "
            "statement'.",
        ),
        (
            "{url: 'http://a', response: {text: '$.['}}",
            "1:44: target.response.text: the JSONPath does not parse: expected a shorthand selector",
        ),
        ("{url: 'http://a', response: {}}", "1:37: target.response.text: is missing (required)"),
        (
            "{url: 'http://a', headers: {A: [x]}}",
            "1:40: target.headers.A: must be text",
        ),
    ],
)
def test_target_mapping_that_is_wrong(tmp_path: Path, target: str, expected: str) -> None:
    assert policy_complaints(tmp_path, f"target: {target}\n") == [expected]


def test_overlays_by_name_and_by_id(tmp_path: Path) -> None:
    policy = f"""\
trials: {{repeat: 3, min_pass: 2}}
cases:
  refund after 40 days:
    retrieval: {{ground_truth_chunk_ids: [policy-3, 7]}}
    expected_trajectory: [{{name: search, args: {{order: {{fuzzy: "A-17"}}}}}}, {{name: re, count: 2}}]
    tags: [refunds, critical]
    weight: 2
    repeat: 5
    min_pass: 4
  {IDS[2]}:
    retrieval: {{ground_truth_chunk_ids: {{a: 1, b: 0.5}}}}
    min_pass: 1
  {IDS[3]}: {{evaluations: [{{metric: f1_score, threshold: 0.5}}]}}
"""
    suite = policy_of(tmp_path, policy)
    first, second, third, fourth = suite.cases
    assert [case.id for case in suite.cases] == IDS
    assert first.tags == ("refunds", "critical")
    assert (first.weight, first.repeat, first.min_pass) == (2.0, 5, 4)
    assert first.turns[0].ground_truth_chunk_ids == {"policy-3": 1.0, "7": 1.0}
    assert first.turns[0].expected_trajectory == (
        ExpectedTool("search", {"order": ArgumentMatcher("fuzzy", "A-17")}, match="exact"),
        ExpectedTool("re", count=2, match="exact"),
    )
    assert (second.weight, second.repeat, second.min_pass, second.tags) == (1.0, 3, 2, ())
    assert third.turns[0].ground_truth_chunk_ids == {"a": 1.0, "b": 0.5}
    assert (third.repeat, third.min_pass) == (3, 1)
    assert suite.notices[-1] == (
        f"half of the trials or fewer are enough for repeated cases: {IDS[2]} (1 of 3); raise min_pass to require more"
    )
    assert [(spec.label, spec.inherited) for spec in fourth.turns[0].metrics] == [
        ("equality", True),
        ("f1_score", False),
    ]
    assert fourth.turns[0].metrics[1].mark.file == "holodeck-action.yaml"


ALLOWED = f'(allowed: "refund after 40 days", "{IDS[1]}", "{IDS[2]}", "{IDS[3]}")'


@walk(
    ("policy", "expected"),
    [
        (
            "cases: {refund after 4 days: {weight: 2}}",
            '1:9: cases: "refund after 4 days" is not a case of this suite, did you mean "refund after 40 days"?',
        ),
        ("cases: {zzz: {weight: 2}}", f'1:9: cases: "zzz" is not a case of this suite {ALLOWED}'),
        (
            "cases: {twin: {weight: 2}}",
            f'1:9: cases: "twin" is the name of 2 cases (allowed: one of their ids {IDS[1]}, {IDS[2]})',
        ),
        (
            f"cases: {{refund after 40 days: {{weight: 2}}, {IDS[0]}: {{weight: 3}}}}",
            f'1:44: cases: "{IDS[0]}" names the same case as "refund after 40 days": write one entry per case',
        ),
        ("cases: {twin: null}", "1:15: cases.twin: must be a mapping"),
        (
            f"cases: {{{IDS[0]}: {{weight: 0}}}}",
            f"1:40: cases.{IDS[0]}.weight: 0 is out of range (allowed: 0.001 to 1000)",
        ),
        (
            f"cases: {{{IDS[0]}: {{repeat: 0}}}}",
            f"1:40: cases.{IDS[0]}.repeat: 0 is out of range (allowed: 1 or more)",
        ),
        (
            f"cases: {{{IDS[0]}: {{repeat: 3, min_pass: 4}}}}",
            f"1:53: cases.{IDS[0]}.min_pass: more trials must pass than there are (allowed: min_pass from 1 to "
            "repeat, which is 3)",
        ),
        (
            f"trials: {{repeat: 3, min_pass: 3}}\ncases: {{{IDS[0]}: {{repeat: 2}}}}",
            f"2:40: cases.{IDS[0]}.repeat: more trials must pass than there are (allowed: min_pass from 1 to repeat, "
            "which is 2)",
        ),
        (
            "trials: {min_pass: 2}",
            "1:20: trials.min_pass: more trials must pass than there are (allowed: min_pass from 1 to repeat, which "
            "is 1)",
        ),
        (
            f"cases: {{{IDS[0]}: {{retrieval: {{ground_truth_chunk_ids: []}}}}}}",
            f"1:68: cases.{IDS[0]}.retrieval.ground_truth_chunk_ids: must have at least one entry",
        ),
        (
            f"cases: {{{IDS[0]}: {{retrieval: {{ground_truth_chunk_ids: {{a: 0}}}}}}}}",
            f"1:72: cases.{IDS[0]}.retrieval.ground_truth_chunk_ids.a: 0 is out of range (allowed: 0.001 to 1000)",
        ),
        (
            f"cases: {{{IDS[0]}: {{expected_trajectory: [search]}}}}",
            f"1:54: cases.{IDS[0]}.expected_trajectory[0]: must be a mapping",
        ),
        (
            f"cases: {{{IDS[0]}: {{expected_trajectory: [{{name: search, match: substring}}]}}}}",
            f"1:69: cases.{IDS[0]}.expected_trajectory[0].match: unknown key (allowed: args, count, name)",
        ),
        (
            "quarantine: [{case: zzz, reason: r, owner: o, expires: 2027-01-31}]",
            f'1:21: quarantine[0].case: "zzz" is not a case of this suite {ALLOWED}',
        ),
        (
            f"quarantine: [{{case: {IDS[0]}, reason: r, owner: o, expires: 2027-02-30}}]",
            "1:73: quarantine[0].expires: must be a date such as 2027-01-31",
        ),
        (
            f"quarantine: [{{case: {IDS[0]}, reason: r, expires: 2027-02-28}}]",
            "1:14: quarantine[0].owner: is missing (required)",
        ),
        (
            "metrics: [{metric: rouge}]",
            f"1:11: metrics[0]: type is missing: every entry needs a type (allowed: {', '.join(built_in().classes)})",
        ),
        ("limits: {concurrency: 0}", "1:23: limits.concurrency: 0 is out of range (allowed: 1 or more)"),
        ("limits: {turn_timeout_s: .nan}", "1:26: limits.turn_timeout_s: must be a finite number"),
        ("gates: {max_errors: -1}", "1:21: gates.max_errors: -1 is out of range (allowed: 0 or more)"),
        ("gates: {min_pass_rate: .nan}", "1:24: gates.min_pass_rate: must be a finite number"),
        (
            "gates: {metrics: {equality: {}}}",
            "1:29: gates.metrics.equality.min_mean: is missing: give at least one bound, such as min_mean: 0.8",
        ),
        (
            "gates: {metrics: {equalty: {min_mean: 1}}}",
            (
                '1:19: gates.metrics.equalty: "equalty" is not a metric of this suite, did you mean "equality"? '
                '(allowed: "equality")'
            ),
        ),
        (
            "gates: {summary: {method: weighted_average, weights: {rouge: 1}, min: 0.5}}",
            '1:55: gates.summary.weights.rouge: "rouge" is not a metric of this suite (allowed: "equality")',
        ),
        (
            "gates: {summary: {method: weighted_average, min: 0.5}}",
            "1:18: gates.summary.weights: is required with method weighted_average, and allowed only with it",
        ),
        (
            "gates: {summary: {method: custom, min: 0.5}}",
            "1:18: gates.summary.function: is required with method custom, and allowed only with it",
        ),
        (
            "gates: {summary: {method: minimum, weights: {equality: 1}, min: 0.5}}",
            "1:45: gates.summary.weights: is required with method weighted_average, and allowed only with it",
        ),
        (
            "baseline: {source: somewhere}",
            "1:20: baseline.source: must be file:PATH, artifact, artifact:NAME, branch:NAME or merge-base",
        ),
        (
            "gate: {}",
            '1:1: gate: unknown key, did you mean "gates"? (allowed: baseline, budget, cache, cases, columns, '
            "environment, gates, ground_truth, judges, limits, metrics, quarantine, secrets, spans, stop, target, "
            "trials, vectorstores, warm_up)",
        ),
        ("- a", "1:1: must be a mapping"),
    ],
)
def test_what_the_policy_file_may_not_say(tmp_path: Path, policy: str, expected: str) -> None:
    assert policy_complaints(tmp_path, policy) == [expected]


CALLS = "needs model calls, which this version cannot make yet; remove it"
EXTERNAL = "needs a vector database, which this version does not use: documents are searched in memory; remove it"


@pytest.mark.proves(
    "Policy: vectorstores",
    "VectorstoreSettings: external",
)
@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ("vectorstores: {external: true}", f"1:26: vectorstores.external: {EXTERNAL}"),
    ],
)
def test_what_this_version_cannot_honour_is_refused(tmp_path: Path, policy: str, expected: str) -> None:
    assert policy_complaints(tmp_path, policy) == [expected]


def test_the_defaults_written_out_are_accepted(tmp_path: Path) -> None:
    policy = """\
target: null
metrics: []
cases: {}
judges: {models: [], aggregation: majority_vote, min_successful_judges: 1, max_concurrent_judges: null,
         fallback_models: []}
trials: {repeat: 1, min_pass: null, stop_when_decided: true}
gates: {min_pass_rate: 1.0, min_pass_rate_lower_bound: null, min_completeness: 1.0, max_errors: null, max_flaky: null,
        max_regressions: null, max_cost_usd: null, max_total_tokens: null, p95_latency_ms: null, metrics: {},
        summary: null}
baseline: {source: null, on_missing: warn, margin: 0.10, on_regressed: fail, on_inconclusive: ignore,
           on_case_regression: confirm, confirm: {trials: 4, cases: 20}}
quarantine: []
budget: {max_cost_usd: null, max_tokens: null, max_minutes: null}
limits: {concurrency: 10, turn_timeout_s: 60, case_timeout_s: 600, import_timeout_s: 300, rate_limit_wait_s: 300,
         run_timeout_s: null, max_response_bytes: 1000000}
cache: {mode: off, dir: .holodeck/cache, ttl_days: 14}
vectorstores: {external: false}
secrets: []
"""
    assert policy_of(tmp_path, policy).policy == Policy()


@pytest.mark.proves("Policy: judges")
def test_judges_are_accepted(tmp_path: Path) -> None:
    policy = "judges: {models: [{provider: openai, name: a}, {provider: openai, name: b}], aggregation: median}\n"
    assert [model.name for model in policy_of(tmp_path, policy).policy.judges.models] == ["a", "b"]


def test_quarantine_is_resolved_to_ids(tmp_path: Path) -> None:
    policy = "quarantine: [{case: refund after 40 days, reason: r, owner: '@t', expires: 2027-01-31}]\n"
    [entry] = policy_of(tmp_path, policy).policy.quarantine
    assert (entry.case, entry.reason, entry.owner, entry.expires) == (IDS[0], "r", "@t", date(2027, 1, 31))


@pytest.mark.proves("holodeck-action.yml and holodeck-action.yaml")
def test_both_spellings_of_the_policy_file_are_too_many(tmp_path: Path) -> None:
    files = {"holodeck-action.yaml": "", "holodeck-action.yml": ""}
    assert complaints(tmp_path, AGENT, files) == [
        "holodeck-action.yml:1:1: is next to holodeck-action.yaml: keep one of them"
    ]
    assert load(tmp_path / "b", AGENT, {"holodeck-action.yml": "trials: {repeat: 2}"}).policy.trials.repeat == 2


def test_several_policy_problems_at_once(tmp_path: Path) -> None:
    policy = (
        "gates: {max_regressions: 1, metrics: {nope: {min_mean: 1}}}\ncases: {nope: {weight: 1}}\n"
        "vectorstores: {external: true}\n"
    )
    assert policy_complaints(tmp_path, policy) == [
        '1:39: gates.metrics.nope: "nope" is not a metric of this suite (allowed: "equality")',
        f'2:9: cases: "nope" is not a case of this suite {ALLOWED}',
        f"3:26: vectorstores.external: {EXTERNAL}",
    ]


def agent_with(count: int) -> str:
    return HEAD + EQUALITY + "test_cases:\n" + "".join(f"- {{input: q{n}, ground_truth: a}}\n" for n in range(count))


@pytest.mark.parametrize(("count", "bound", "needed"), [(34, 0.9, 35), (1, 0.5, 4), (4, 0.6, 6)])
def test_a_lower_bound_that_cannot_be_reached(tmp_path: Path, count: int, bound: float, needed: int) -> None:
    policy = f"gates: {{min_pass_rate_lower_bound: {bound}}}\n"
    plural = "" if count == 1 else "s"
    assert policy_complaints(tmp_path, policy, agent_with(count)) == [
        f"1:36: gates.min_pass_rate_lower_bound: cannot be reached with {count} case{plural}: it "
        f"needs {needed} (cases that are quarantined or cannot fail do not count)"
    ]
    assert policy_complaints(tmp_path / "enough", policy, agent_with(needed)) == []


def test_a_lower_bound_of_one(tmp_path: Path) -> None:
    assert policy_complaints(tmp_path, "gates: {min_pass_rate_lower_bound: 1}", agent_with(3)) == [
        "1:36: gates.min_pass_rate_lower_bound: can never be reached: a lower bound is always below 1"
    ]


def test_quarantined_and_informational_cases_do_not_count_for_the_lower_bound(tmp_path: Path) -> None:
    agent = agent_with(4) + "- {input: informational}\n"
    policy = (
        "gates: {min_pass_rate_lower_bound: 0.5}\n"
        "quarantine: [{case: CASE, reason: r, owner: o, expires: 2099-01-01}]\n"
    )
    found = load(tmp_path, agent).cases[0].id
    assert policy_complaints(tmp_path, policy.replace("CASE", found), agent) == [
        "1:36: gates.min_pass_rate_lower_bound: cannot be reached with 3 cases: it needs 4 "
        "(cases that are quarantined or cannot fail do not count)"
    ]


@given(st.floats(0.0, 0.995))
def test_the_number_of_cases_named_is_the_least_that_suffices(bound: float) -> None:
    policy = Policy(gates=Gates(min_pass_rate_lower_bound=bound))
    document = Document("p", MarkedMap.at(1, 1), True, (), frozenset())
    problems = unreachable_lower_bound(policy, (), document)
    if not problems:
        assert bound == 0.0
        return
    needed = int(problems[0].message.partition("it needs ")[2].split()[0])
    # Wilson's lower bound at n of n passes, written out.
    lower = [
        (1 + Z**2 / (2 * n) - Z * math.sqrt(Z**2 / (4 * n * n))) / (1 + Z**2 / n) for n in (needed, needed - 1) if n
    ]
    assert lower[0] >= bound - 1e-12
    assert len(lower) == 1 or lower[1] < bound + 1e-12
