"""Every defect of an agent.yaml is one whole sentence at its line."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from holodeck_action.metrics.registry import built_in
from holodeck_action.metrics.standard import StandardMetric
from holodeck_action.suite.errors import SuiteError
from holodeck_action.suite.loader import load_suite
from holodeck_action.suite.model.providers import ProviderName
from tests.suite.folders import CASE, EQUALITY, HEAD, complaints
from tests.tables import walk

METRICS = ", ".join(built_in().classes)
STANDARD = ", ".join(get_args(StandardMetric.model_fields["metric"].annotation))
PROVIDER_KEYS = "api_key, api_version, auth_provider, endpoint, max_tokens, name, provider, temperature, top_p"
TOOL_CASE = "test_cases: [{input: a, expected_tools: []}]\n"
CASE_KEYS = (
    "evaluations, expect, expected_tools, files, ground_truth, ground_truths, input, name, retrieval_context, "
    "simulate, turns"
)


def metric(entry: str) -> str:
    """An agent.yaml with one metric, on line 6 from column 7, and one case."""
    return f"{HEAD}evaluations:\n  metrics:\n    - {entry}\n{CASE}"


def case(entry: str) -> str:
    """An agent.yaml with one case, on line 6 from column 3."""
    return f"{HEAD}{EQUALITY}test_cases:\n- {entry}\n"


METRIC_ERRORS = [
    (
        "{metric: rouge}",
        f"6:7: evaluations.metrics[0]: type is missing: every entry needs a type (allowed: {METRICS})",
    ),
    (
        "{type: standrd, metric: rouge}",
        f'6:14: evaluations.metrics[0].type: "standrd" is not allowed, did you mean "standard"? (allowed: {METRICS})',
    ),
    ("{type: [a], metric: rouge}", f"6:14: evaluations.metrics[0].type: must be text (allowed: {METRICS})"),
    ("rouge", "6:7: evaluations.metrics[0]: must be a mapping"),
    (
        "{type: standard, metric: safety}",
        (
            "6:32: evaluations.metrics[0].metric: safety is not supported: write "
            "`{type: deepeval, metric: ToxicityMetric}`, or `type: geval` with your own criteria"
        ),
    ),
    (
        "{type: standard, metric: faithfulness}",
        "6:32: evaluations.metrics[0].metric: faithfulness is a rag metric: write `type: rag` and "
        "`metric_type: faithfulness`",
    ),
    (
        "{type: standard, metric: ndcg_at_k}",
        "6:32: evaluations.metrics[0].metric: ndcg_at_k is a retrieval metric: write `type: retrieval` "
        "and `metric: ndcg_at_k`",
    ),
    (
        "{type: tool_correctness, args: matchers}",
        "6:38: evaluations.metrics[0].args: matchers is now called subset: write `args: subset`, or leave it out "
        "(allowed: exact, subset, ignore)",
    ),
    (
        "{type: standard, metric: rogue}",
        f'6:32: evaluations.metrics[0].metric: "rogue" is not allowed, did you mean "rouge"? (allowed: {STANDARD})',
    ),
    (
        "{type: standard, metric: rouge, threshold: .nan}",
        "6:50: evaluations.metrics[0].threshold: must be a finite number",
    ),
    (
        "{type: standard, metric: rouge, threshold: .inf}",
        "6:50: evaluations.metrics[0].threshold: must be a finite number",
    ),
    (
        "{type: standard, metric: rouge, threshold: -0.1}",
        "6:50: evaluations.metrics[0].threshold: -0.1 is out of range (allowed: 0 or more)",
    ),
    (
        "{type: standard, metric: rouge, threshold: 1.5}",
        "6:50: evaluations.metrics[0].threshold: can never be reached: the highest score is 1 (allowed: 0 to 1)",
    ),
    (
        "{type: standard, metric: rouge, scale: 5, threshold: 6}",
        "6:60: evaluations.metrics[0].threshold: can never be reached: the highest score is 5 (allowed: 0 to 5)",
    ),
    (
        "{type: standard, metric: rouge, threshold: true}",
        "6:50: evaluations.metrics[0].threshold: must be a number, not true or false",
    ),
    ("{type: standard, metric: rouge, threshold: high}", "6:50: evaluations.metrics[0].threshold: must be a number"),
    ("{type: standard, metric: rouge, threshold: [1]}", "6:50: evaluations.metrics[0].threshold: must be a number"),
    ("{type: standard, metric: rouge, enabled: maybe}", "6:48: evaluations.metrics[0].enabled: must be true or false"),
    (
        "{type: standard, metric: rouge, variant: rogue2}",
        '6:48: evaluations.metrics[0].variant: "rogue2" is not allowed, did you mean "rouge2"? (allowed: rouge1, '
        "rouge2, rougeL)",
    ),
    (
        "{type: standard, metric: rouge, retry_on_failure: 4}",
        "6:57: evaluations.metrics[0].retry_on_failure: 4 is out of range (allowed: 1 to 3)",
    ),
    (
        "{type: standard, metric: rouge, timeout_ms: 1.5}",
        "6:51: evaluations.metrics[0].timeout_ms: must be a whole number",
    ),
    ("{type: standard, metric: rouge, name: ' '}", "6:45: evaluations.metrics[0].name: must not be blank"),
    ("{type: geval, name: Tone}", "6:7: evaluations.metrics[0].criteria: is missing (required)"),
    (
        "{type: code, grader: my grader}",
        "6:28: evaluations.metrics[0].grader: must be module.path:callable, such as graders.refunds:check",
    ),
    (
        "{type: code, grader: 'a:b', scale: {min: 5, max: 5}}",
        "6:56: evaluations.metrics[0].scale.max: must be above min",
    ),
    (
        "{type: code, grader: 'a:b', threshold: 7}",
        (
            "6:46: evaluations.metrics[0].threshold: threshold 7 is outside the range of the grader's scores "
            "(allowed: 0 to 1; give `scale` if the grader uses another range)"
        ),
    ),
    (
        "{type: code, grader: 'a:b', threshold: 11, scale: {min: 0, max: 10}}",
        (
            "6:46: evaluations.metrics[0].threshold: threshold 11 is outside the range of the grader's scores "
            "(allowed: 0 to 10; give `scale` if the grader uses another range)"
        ),
    ),
    (
        "{type: retrieval, metric: recall_at_k, k: [5, 0]}",
        "6:53: evaluations.metrics[0].k[1]: 0 is out of range (allowed: 1 or more)",
    ),
    (
        "{type: retrieval, metric: recall_at_k, k: []}",
        "6:49: evaluations.metrics[0].k: must have at least one entry",
    ),
    ("{type: length}", "6:7: evaluations.metrics[0]: give at least one bound, such as max_words: 200"),
    (
        "{type: length, min_words: 9, max_words: 3}",
        "6:7: evaluations.metrics[0]: min_words must not be above max_words",
    ),
]


@pytest.mark.needs
@walk(("entry", "expected"), METRIC_ERRORS)
def test_metrics(tmp_path: Path, entry: str, expected: str) -> None:
    assert complaints(tmp_path, metric(entry)) == [f"agent.yaml:{expected}"]


CASE_ERRORS = [
    (
        "{inptu: a, input: b, ground_truth: c}",
        f'6:4: test_cases[0].inptu: unknown key, did you mean "input"? (allowed: {CASE_KEYS})',
    ),
    *(
        (
            f"{{input: a, {key}: []}}",
            f'6:14: test_cases[0].{key}: unknown key: did you mean "expected_trajectory"? It belongs in '
            "holodeck-action.yaml, under cases.NAME; the target reports the calls that an agent makes "
            f"(allowed: {CASE_KEYS})",
        )
        for key in ("agent_trajectory", "expected_agent_trajectory")
    ),
    ("{name: x}", '6:3: test_cases[0]: a case needs input, or turns or simulate for a conversation (case "x")'),
    ("{input: ' '}", "6:11: test_cases[0].input: must not be blank"),
    ("{input: 42}", "6:11: test_cases[0].input: must be text: put the value in quotes"),
    ("{input: a, name: ''}", '6:20: test_cases[0].name: must not be blank (case "")'),
    ("{turns: []}", "6:11: test_cases[0].turns: must have at least one entry"),
    (
        "{name: x, input: a, ground_truth: b, turns: [{input: a}]}",
        "6:3: test_cases[0]: a case with turns cannot also have input and ground_truth: move input and ground_truth "
        'into the turns (case "x")',
    ),
    ("{turns: [{ground_truth: a}]}", "6:12: test_cases[0].turns[0].input: is missing (required)"),
    ("{input: a, ground_truth: ' '}", "6:28: test_cases[0].ground_truth: must not be blank"),
    ("{input: a, ground_truth: [b]}", "6:28: test_cases[0].ground_truth: must be text"),
    (
        '{input: a, expected_tools: [""]}',
        "6:31: test_cases[0].expected_tools[0]: must not be blank: a blank name matches every call and asserts nothing",
    ),
    (
        "{name: x, input: a, expected_tools: [{name: f, args: {a: {regex: '('}}}]}",
        "6:60: test_cases[0].expected_tools[0].args.a: the pattern does not compile: missing ) at position 1 "
        '(case "x")',
    ),
    (
        "{input: a, expected_tools: [{name: f, args: {a: {fuzzy: x, regex: y}}}]}",
        "6:51: test_cases[0].expected_tools[0].args.a: a matcher has only one key, fuzzy or regex, and no others",
    ),
    (
        "{input: a, expected_tools: [{name: f, args: {a: {fuzzy: x, other: y}}}]}",
        "6:51: test_cases[0].expected_tools[0].args.a: a matcher has only one key, fuzzy or regex, and no others",
    ),
    (
        "{input: a, expected_tools: [{name: f, args: {a: {fuzzy: 1.5}}}]}",
        "6:51: test_cases[0].expected_tools[0].args.a: fuzzy must be text: put it in quotes",
    ),
    (
        "{input: a, expected_tools: [{name: f, count: true}]}",
        "6:48: test_cases[0].expected_tools[0].count: must be a whole number, not true or false",
    ),
    (
        "{input: a, expected_tools: [{name: f, count: 0}]}",
        "6:48: test_cases[0].expected_tools[0].count: 0 is out of range (allowed: 1 or more)",
    ),
    (
        "{input: a, expected_tools: [{name: f, count: 3, max_count: 2}]}",
        "6:62: test_cases[0].expected_tools[0].max_count: is below count: no number of calls satisfies both",
    ),
    (
        "{input: a, expected_tools: {tools: [f], order: exact}}",
        '6:50: test_cases[0].expected_tools.order: "exact" is not allowed (allowed: any, subset, strict)',
    ),
    ("{input: a, expected_tools: f}", "6:30: test_cases[0].expected_tools: must be a list"),
    ("{input: a, files: [{type: pdf}]}", "6:22: test_cases[0].files[0].path: give exactly one of path and url"),
    (
        "{input: a, files: [{type: pdf, path: x.pdf, pages: [0]}]}",
        "6:55: test_cases[0].files[0].pages[0]: 0 is out of range (allowed: above 0)",
    ),
    (
        f"{{input: a, files: [{', '.join(['{type: text, path: x}'] * 11)}]}}",
        "6:21: test_cases[0].files: has too many entries (allowed: at most 10)",
    ),
    (
        "{turns: [{input: a, turn_config: {1: x}}]}",
        "6:37: test_cases[0].turns[0].turn_config: the key 1 must be text: put it in quotes",
    ),
    (
        "{turns: [{input: a, turn_config: {x: {on: 1}}}]}",
        "6:36: test_cases[0].turns[0].turn_config: the key true must be text: put it in quotes",
    ),
    (
        "{turns: [{input: a, turn_config: {x: .nan}}]}",
        "6:36: test_cases[0].turns[0].turn_config: must not contain NaN or infinity",
    ),
    (
        "{turns: [{input: a, evaluations: [{type: trajectory}]}, {input: b, ground_truth: c}]}",
        "6:37: test_cases[0].turns[0].evaluations[0]: trajectory grades the whole conversation: list it on the last "
        "turn or on the case",
    ),
    (
        "{input: a, evaluations: [{metric: rouge, k: 3}]}",
        "6:44: test_cases[0].evaluations[0].k: unknown key (allowed: absolute_tolerance, accept_percent, "
        "accept_thousands_separators, case_insensitive, custom_prompt, enabled, fail_on_error, judges, metric, model, "
        "name, probe, relative_tolerance, response_path, retry_on_failure, scale, strip_punctuation, strip_whitespace, "
        "threshold, timeout_ms, type, use_stemmer, variant)",
    ),
]


@walk(("entry", "expected"), CASE_ERRORS)
def test_cases(tmp_path: Path, entry: str, expected: str) -> None:
    assert complaints(tmp_path, case(entry)) == [f"agent.yaml:{expected}"]


TOOL = "{type: mcp, name: m, description: d"
TOP_ERRORS = [
    ("instructions: {}", "3:15: instructions: give exactly one of file and inline"),
    (
        "claude: {subagents: {}}",
        "3:10: claude.subagents: unknown key: it was renamed to agents (allowed: agents, allowed_tools, bash, "
        "disable_default_hooks, disable_subprocess_env_scrub, disallowed_tools, effort, extended_thinking, "
        "fallback_model, file_system, i_understand_this_is_unsafe, max_budget_usd, max_concurrent_sessions, max_turns, "
        "permission_mode, session_memory_estimate_mib, setting_sources, web_search, working_directory)",
    ),
    (
        "tools: [{name: x}]",
        "3:9: tools[0]: type is missing: every entry needs a type (allowed: function, vectorstore, "
        "hierarchical_document, mcp, prompt)",
    ),
    (f"tools: [{TOOL}}}]", "3:9: tools[0].command: is missing (required for transport stdio)"),
    (f"tools: [{TOOL}, transport: sse}}]", "3:9: tools[0].url: is missing (required for transport sse)"),
    (
        f"tools: [{TOOL}, transport: http, url: 'http://example.org'}}]",
        "3:68: tools[0].url: must start with https, wss or ws (http only for localhost)",
    ),
    (
        f"tools: [{TOOL}, command: ruby}}]",
        '3:55: tools[0].command: "ruby" is not allowed (allowed: npx, node, uvx, docker, python, python3)',
    ),
    (
        "tools: [{type: vectorstore, name: v, description: d, source: s, vector_field: t}]",
        "3:9: tools[0].id_field: is missing (required when vector_field is set)",
    ),
    (
        "tools: [{type: hierarchical_document, name: h, description: d, source: s, exact_weight: 0.3}]",
        "3:9: tools[0]: semantic_weight, keyword_weight and exact_weight must add up to 1 in hybrid search",
    ),
    (
        "tools: [{type: prompt, name: p, description: d, template: t, parameters: {a: 1}}, {type: prompt, name: p, "
        "description: d, template: t, parameters: {a: 1}}]",
        '3:104: tools[1].name: "p" is already the name of tools[0]: tool names must be unique',
    ),
    ("evaluations: {metrics: []}", "3:24: evaluations.metrics: must have at least one entry"),
    ("execution: {llm_timeout: 0}", "3:26: execution.llm_timeout: 0 is out of range (allowed: above 0)"),
    ("description:\n  - x", "4:3: description: must be text"),
    (
        "name2: x",
        '3:1: name2: unknown key, did you mean "name"? (allowed: author, claude, deployment, description, '
        "embedding_provider, evaluations, execution, instructions, model, name, observability, openai, "
        "response_format, "
        "test_cases, test_cases_file, tools)",
    ),
]


@walk(("block", "expected"), TOP_ERRORS)
def test_top_level(tmp_path: Path, block: str, expected: str) -> None:
    instructions = "" if block.startswith("instructions") else "instructions: {inline: hi}\n"
    agent = f"name: a\nmodel: {{provider: ollama, name: m}}\n{block}\n{instructions}{TOOL_CASE}"
    assert complaints(tmp_path, agent) == [f"agent.yaml:{expected}"]


MODEL_ERRORS = [
    ("{name: m}", "1:8: model.provider: is missing (required)"),
    ("{provider: openai}", "1:8: model.name: is missing (required)"),
    (
        "{provider: openia, name: m}",
        '1:19: model.provider: "openia" is not allowed, did you mean "openai"? (allowed: '
        f"{', '.join(get_args(ProviderName))})",
    ),
    ("{provider: azure_openai, name: m}", "1:8: model.endpoint: is missing (required for provider azure_openai)"),
    (
        "{provider: openai, name: m, organization: o}",
        "1:36: model.organization: unknown key: the OpenAI client reads OPENAI_ORG_ID from the environment (allowed: "
        f"{PROVIDER_KEYS})",
    ),
]


@walk(("model", "expected"), MODEL_ERRORS)
def test_model(tmp_path: Path, model: str, expected: str) -> None:
    agent = f"model: {model}\nname: a\ninstructions: {{inline: hi}}\n{TOOL_CASE}"
    assert complaints(tmp_path, agent) == [f"agent.yaml:{expected}"]


def test_an_anthropic_agent_that_searches_needs_an_embedding_model(tmp_path: Path) -> None:
    agent = (
        "name: a\nmodel: {provider: anthropic, name: m}\ninstructions: {inline: hi}\n"
        "tools: [{type: vectorstore, name: v, description: d, source: s}]\n"
        f"{TOOL_CASE}"
    )
    assert complaints(tmp_path, agent) == [
        "agent.yaml:1:1: embedding_provider: is missing (required when the model's provider is anthropic and a tool "
        "searches documents)"
    ]


def test_all_errors_of_all_files_at_once_sorted_by_file_and_line(tmp_path: Path) -> None:
    found = complaints(
        tmp_path,
        "name: ''\nmodel: {provider: ollama, name: '${MODEL}'}\ninstructions: hi\nname: x\n"
        "test_cases_file: cases.yaml\n",
        {
            "cases.yaml": "- {input: ''}\n- {turns: []}\n",
            "config.yaml": "execution: {cache_directory: x}\n",
            "holodeck-action.yaml": "gates: {min_pass_rate: 2, max_cost_usd: '${LIMIT}'}\n",
        },
        home=tmp_path,
    )
    assert found == [
        "agent.yaml:1:7: name: must not be blank",
        "agent.yaml:2:33: model.name: the variable MODEL is not set: set it, or write ${MODEL:-default}",
        "agent.yaml:3:15: instructions: must be a mapping: write {inline: your text} or {file: path of the text}",
        "agent.yaml:4:1: name: occurs twice in one mapping (first on line 1)",
        "cases.yaml:1:11: test_cases[0].input: must not be blank",
        "cases.yaml:2:11: test_cases[1].turns: must have at least one entry",
        'config.yaml:1:13: execution.cache_directory: unknown key, did you mean "cache_dir"? (allowed: cache_dir, '
        "cache_enabled, download_timeout, file_timeout, llm_timeout, parallel_test_cases, quiet, verbose)",
        "holodeck-action.yaml:1:24: gates.min_pass_rate: 2 is out of range (allowed: 0 to 1)",
        "holodeck-action.yaml:1:41: gates.max_cost_usd: the variable LIMIT is not set: set it, or write "
        "${LIMIT:-default}",
    ]


@pytest.mark.parametrize(
    ("agent", "expected"),
    [
        ("", "agent.yaml:1:1: is empty (required: name, model, instructions and cases)"),
        ("- a\n", "agent.yaml:1:1: must be a mapping (required: name, model, instructions and cases)"),
        ("just text", "agent.yaml:1:1: must be a mapping (required: name, model, instructions and cases)"),
    ],
)
def test_files_that_are_no_suite(tmp_path: Path, agent: str, expected: str) -> None:
    assert complaints(tmp_path, agent) == [expected]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SuiteError) as raised:
        load_suite(tmp_path / "agent.yaml", environ={}, home=None, metrics=built_in())
    assert str(raised.value) == f"{tmp_path / 'agent.yaml'}: does not exist"
    with pytest.raises(SuiteError) as raised:
        load_suite(tmp_path, environ={}, home=None, metrics=built_in())
    assert str(raised.value) == f"{tmp_path}: is a folder (allowed: a YAML file)"


def test_broken_policy_is_reported_although_agent_yaml_is_not_yaml(tmp_path: Path) -> None:
    assert complaints(tmp_path, "name: [", {"holodeck-action.yaml": "limits: {concurrency: 0}\n"}) == [
        "agent.yaml:2:1: is not valid YAML: the text ends inside brackets: close [ with ], and { with }",
        "holodeck-action.yaml:1:23: limits.concurrency: 0 is out of range (allowed: 1 or more)",
    ]


def test_an_aliased_value_is_reported_where_it_is_used(tmp_path: Path) -> None:
    agent = f"{HEAD}description: &text '  '\nauthor: *text\n{EQUALITY}{CASE}"
    assert complaints(tmp_path, agent) == [
        "agent.yaml:4:14: description: must not be blank",
        "agent.yaml:5:9: author: must not be blank",
    ]


NO_BATCHES = "judges are called one by one, without batch jobs of providers: leave it out"


@pytest.mark.needs
@pytest.mark.proves(
    "batch, batch_status_check_interval and batch_max_iterations of a metric",
    "names that gllm-evals has for options of a metric",
)
@walk(
    ("entry", "told"),
    [
        ("{type: generation, batch: true}", f"batch: unknown key: {NO_BATCHES}"),
        ("{type: agent, batch_max_iterations: 3}", f"batch_max_iterations: unknown key: {NO_BATCHES}"),
        (
            "{type: summarization, batch_status_check_interval: 9}",
            f"batch_status_check_interval: unknown key: {NO_BATCHES}",
        ),
        ("{type: generation, models: []}", "models: unknown key: several grading models go under judges.models"),
        (
            "{type: agent, aggregation_method: mean}",
            "aggregation_method: unknown key: it belongs under judges.aggregation",
        ),
        (
            "{type: agent, max_concurrent_judges: 2}",
            "max_concurrent_judges: unknown key: it belongs under judges.max_concurrent_judges",
        ),
        (
            "{type: refusal, fallback_models: []}",
            "fallback_models: unknown key: they belong under judges.fallback_models",
        ),
        ("{type: generation, run_parallel: false}", "run_parallel: unknown key: it is called parallel"),
        (
            "{type: lm_retrieval, enabled_metrics: []}",
            "enabled_metrics: unknown key: metrics.NAME.enabled: false leaves one out",
        ),
        ("{type: generation, refusal_metric: x}", "refusal_metric: unknown key: it belongs under metrics.refusal"),
        (
            "{type: agent, generation_evaluator: x}",
            "generation_evaluator: unknown key: it belongs under metrics.generation",
        ),
        (
            "{type: agent, metrics_aggregator: x}",
            (
                "metrics_aggregator: unknown key: the way scores are combined is fixed; for your own code, use a "
                "metric of type"
            ),
        ),
        # Where there is no such place nothing is said of one.
        ("{type: length, max_words: 3, models: []}", "models: unknown key (allowed: "),
    ],
)
def test_options_of_other_tools_are_refused_with_what_to_write(tmp_path: Path, entry: str, told: str) -> None:
    (complaint,) = complaints(tmp_path, metric(entry))
    assert f"evaluations.metrics[0].{told}" in complaint


@pytest.mark.proves("evaluations.summary")
def test_a_summary_in_agent_yaml_is_refused_with_its_place(tmp_path: Path) -> None:
    metrics = "[{type: standard, metric: equality}]"
    (complaint,) = complaints(
        tmp_path, f"{HEAD}evaluations: {{summary: {{method: minimum}}, metrics: {metrics}}}\n{CASE}"
    )
    assert "evaluations.summary: unknown key: a summary is a gate: write it in holodeck-action.yaml" in complaint
