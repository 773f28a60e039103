"""HoloDeck's guide to evaluations, row by row."""

from __future__ import annotations

import dataclasses
from types import MappingProxyType
from typing import Any

import pytest

from tests.conformance.expressions import MODULES, Names, check_that_all_are_refused, check_that_all_hold

pytestmark = pytest.mark.needs("holodeck")
GUIDE = (
    *MODULES,
    "holodeck.lib.evaluators.deterministic",
    "holodeck.lib.test_runner.code_grader",
    "holodeck.models.test_case",
)


def names() -> Names:
    def score(evaluator: Any, response: str, ground_truth: str) -> Any:
        return evaluator.compute(response=response, ground_truth=ground_truth).score

    def metric(kind: str, **fields: Any) -> Any:
        return Names(GUIDE)["EvaluationConfig"](metrics=[{"type": kind, **fields}]).metrics[0]

    tone = MappingProxyType({"name": "Tone", "criteria": "polite"})
    fields_of = lambda kind: {field.name for field in dataclasses.fields(kind)}  # noqa: E731
    return Names(GUIDE, score=score, metric=metric, tone=tone, fields_of=fields_of)


@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Evaluations",
    "a score is from 0 to 1: `score(NumericEvaluator(), '1', '1') == 1.0 and score(NumericEvaluator(), '1', '2') == 0.0`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Quick start",
    "the metric of the sample: `metric('standard', metric='numeric', relative_tolerance=0.01).relative_tolerance == 0.01`",
    "the answer of the sample passes: `score(NumericEvaluator(relative_tolerance=0.01), '60.94', '60.94') == 1.0`",
    "an answer within 1 % passes: `score(NumericEvaluator(relative_tolerance=0.01), '61.5', '60.94') == 1.0`",
    "an answer beyond 1 % does not pass: `score(NumericEvaluator(relative_tolerance=0.01), '62', '60.94') == 0.0`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "How it works",
    "`type: standard` is a family of metrics: `metric('standard', metric='bleu').type == 'standard'`",
    "`type: geval` is a family of metrics: `metric('geval', **tone).type == 'geval'`",
    "`type: rag` is a family of metrics: `metric('rag', metric_type='faithfulness').type == 'rag'`",
    "`type: code` is a family of metrics: `metric('code', grader='a.b:c').type == 'code'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Choosing a metric",
    "`standard` has `equality`: `metric('standard', metric='equality').metric == 'equality'`",
    "`standard` has `numeric`: `metric('standard', metric='numeric').metric == 'numeric'`",
    "`standard` has `f1_score`: `metric('standard', metric='f1_score').metric == 'f1_score'`",
    "`standard` has `bleu`: `metric('standard', metric='bleu').metric == 'bleu'`",
    "`standard` has `rouge`: `metric('standard', metric='rouge').metric == 'rouge'`",
    "`standard` has `meteor`: `metric('standard', metric='meteor').metric == 'meteor'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Deterministic & NLP metrics",
    "a `metric` of `type: standard` names the measure: `metric('standard', metric='equality').metric == 'equality'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Numeric",
    "`absolute_tolerance` is 1e-6 by default: `metric('standard', metric='numeric').absolute_tolerance in (None, 1e-6) and score(NumericEvaluator(), '1.000001', '1') == 1.0`",
    "beyond the default of `absolute_tolerance` it is 0: `score(NumericEvaluator(), '1.00001', '1') == 0.0`",
    "`absolute_tolerance` includes its bound: `score(NumericEvaluator(absolute_tolerance=0.5), '1.5', '1') == 1.0`",
    "`relative_tolerance` is 0 by default: `score(NumericEvaluator(), '101', '100') == 0.0`",
    "`relative_tolerance` is a share of the expected number: `score(NumericEvaluator(relative_tolerance=0.01), '101', '100') == 1.0`",
    "either tolerance is enough: `score(NumericEvaluator(absolute_tolerance=0.5, relative_tolerance=0.0), '1.4', '1') == 1.0`",
    "`accept_percent` is false by default: `score(NumericEvaluator(), '35%', '0.35') == 0.0`",
    "`accept_percent` reads 35% as 0.35: `score(NumericEvaluator(accept_percent=True), '35%', '0.35') == 1.0`",
    "`accept_thousands_separators` is false by default: `score(NumericEvaluator(), '1,234', '1234') == 0.0`",
    "`accept_thousands_separators` removes commas: `score(NumericEvaluator(accept_thousands_separators=True), '1,234.56', '1234.56') == 1.0`",
    "`accept_thousands_separators` removes `_`, so that this holds: `score(NumericEvaluator(accept_thousands_separators=True), '1_234', '1234') == 1.0`",
    "`accept_thousands_separators` removes no-break spaces: `score(NumericEvaluator(accept_thousands_separators=True), '1\\xa0234', '1234') == 1.0`",
    "both flags together: `score(NumericEvaluator(accept_percent=True, accept_thousands_separators=True), '1,035.8%', '10.358') == 1.0`",
    "`response_path` is a field: `metric('standard', metric='numeric', response_path='answer').response_path == 'answer'`",
    "the sample is accepted: `metric('standard', metric='numeric', absolute_tolerance=0.5, relative_tolerance=0.0, accept_percent=True, accept_thousands_separators=True).accept_percent is True`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Equality",
    "a match is 1: `score(EqualityEvaluator(), 'yes', 'yes') == 1.0`",
    "no match is 0: `score(EqualityEvaluator(), 'yes', 'no') == 0.0`",
    "`case_insensitive` is false by default: `score(EqualityEvaluator(), 'Yes', 'yes') == 0.0`",
    "`case_insensitive` lowers both sides: `score(EqualityEvaluator(case_insensitive=True), 'Yes', 'yES') == 1.0`",
    "`strip_whitespace` is false by default: `score(EqualityEvaluator(), ' yes', 'yes') == 0.0`",
    "`strip_whitespace` trims: `score(EqualityEvaluator(strip_whitespace=True), ' yes ', 'yes') == 1.0`",
    "`strip_whitespace` collapses runs: `score(EqualityEvaluator(strip_whitespace=True), 'a  b', 'a b') == 1.0`",
    "`strip_punctuation` is false by default: `score(EqualityEvaluator(), 'yes.', 'yes') == 0.0`",
    "`strip_punctuation` removes it: `score(EqualityEvaluator(strip_punctuation=True), 'yes.', 'yes') == 1.0`",
    "the sample is accepted: `metric('standard', metric='equality', case_insensitive=True, strip_whitespace=True, strip_punctuation=False).case_insensitive is True`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "NLP overlap metrics",
    "the sample is accepted: `metric('standard', metric='f1_score', threshold=0.8).threshold == 0.8`",
    "`bleu` of the same text is 1: `score(BLEUEvaluator(), 'a b c d', 'a b c d') == 1.0`",
    "`rouge` of the same text is 1: `score(ROUGEEvaluator(), 'a b c d', 'a b c d') == 1.0`",
    "`meteor` knows synonyms: `score(METEOREvaluator(), 'The auto is red', 'The car is red') > score(METEOREvaluator(), 'The banana is red', 'The car is red')`",
    "`bleu` penalises brevity: `score(BLEUEvaluator(), 'a b c d', 'a b c d e f g h') < 1.0`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "DeepEval metrics",
    "temperature 0 by default: `judge.temperature == 0.0`",
    "`ollama` may grade: `ProviderEnum('ollama').value == 'ollama'`",
    "`openai` may grade: `ProviderEnum('openai').value == 'openai'`",
    "`anthropic` may grade: `ProviderEnum('anthropic').value == 'anthropic'`",
    "`azure_openai` may grade: `ProviderEnum('azure_openai').value == 'azure_openai'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "GEval — custom criteria",
    "field `type`: `metric('geval', **tone).type == 'geval'`",
    "field `name`: `metric('geval', **tone).name == 'Tone'`",
    "field `criteria`: `metric('geval', **tone).criteria == 'polite'`",
    "`evaluation_steps` may be missing: `metric('geval', **tone).evaluation_steps is None`",
    "field `evaluation_steps`: `[*metric('geval', **tone, evaluation_steps=['Look.']).evaluation_steps] == ['Look.']`",
    "`evaluation_params` is the answer alone by default: `[*metric('geval', **tone).evaluation_params] == ['actual_output']`",
    "field `threshold`: `metric('geval', **tone, threshold=0.8).threshold == 0.8`",
    "`strict_mode` is false by default: `metric('geval', **tone).strict_mode is False`",
    "`enabled` is true by default: `metric('geval', **tone).enabled is True`",
    "`fail_on_error` is false by default: `metric('geval', **tone).fail_on_error is False`",
    "field `model`: `metric('geval', **tone, model={'provider': 'openai', 'name': 'gpt-4'}).model.name == 'gpt-4'`",
    "`evaluation_params` may have `input`: `'input' in metric('geval', **tone, evaluation_params=['actual_output', 'input']).evaluation_params`",
    "`evaluation_params` may have `expected_output`: `'expected_output' in metric('geval', **tone, evaluation_params=['actual_output', 'expected_output']).evaluation_params`",
    "`evaluation_params` may have `context`: `'context' in metric('geval', **tone, evaluation_params=['actual_output', 'context']).evaluation_params`",
    "`evaluation_params` may have `retrieval_context`: `'retrieval_context' in metric('geval', **tone, evaluation_params=['actual_output', 'retrieval_context']).evaluation_params`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "RAG metrics",
    "`metric_type` may be `faithfulness`: `metric('rag', metric_type='faithfulness').metric_type == 'faithfulness'`",
    "`metric_type` may be `answer_relevancy`: `metric('rag', metric_type='answer_relevancy').metric_type == 'answer_relevancy'`",
    "`metric_type` may be `contextual_relevancy`: `metric('rag', metric_type='contextual_relevancy').metric_type == 'contextual_relevancy'`",
    "`metric_type` may be `contextual_precision`: `metric('rag', metric_type='contextual_precision').metric_type == 'contextual_precision'`",
    "`metric_type` may be `contextual_recall`: `metric('rag', metric_type='contextual_recall').metric_type == 'contextual_recall'`",
    "`include_reason` is true by default: `metric('rag', metric_type='faithfulness').include_reason is True`",
    "field `threshold`: `metric('rag', metric_type='faithfulness', threshold=0.8).threshold == 0.8`",
    "its own `model`: `metric('rag', metric_type='faithfulness', model={'provider': 'openai', 'name': 'gpt-4'}).model.name == 'gpt-4'`",
    "answer relevancy requires question and answer: `AnswerRelevancyEvaluator.get_param_spec().required == {'input', 'actual_output'}`",
    "contextual relevancy requires three inputs: `ContextualRelevancyEvaluator.get_param_spec().required == {'input', 'actual_output', 'retrieval_context'}`",
    "contextual precision requires four inputs: `ContextualPrecisionEvaluator.get_param_spec().required == {'input', 'actual_output', 'expected_output', 'retrieval_context'}`",
    "contextual recall requires four inputs: `ContextualRecallEvaluator.get_param_spec().required == {'input', 'actual_output', 'expected_output', 'retrieval_context'}`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Code graders",
    "`grader` names module and callable: `metric('code', grader='graders.exact_tool_call:called_subtract_with').grader == 'graders.exact_tool_call:called_subtract_with'`",
    "`threshold` may be missing: `metric('code', grader='a.b:c').threshold is None`",
    "field `threshold`: `metric('code', grader='a.b:c', threshold=0.7).threshold == 0.7`",
    "`enabled` is true by default: `metric('code', grader='a.b:c').enabled is True`",
    "`fail_on_error` is false by default: `metric('code', grader='a.b:c').fail_on_error is False`",
    "field `name`: `metric('code', grader='a.b:c', name='Turn Program').name == 'Turn Program'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Grader contract",
    "`GraderContext` has `turn_input`: `'turn_input' in fields_of(GraderContext)`",
    "`GraderContext` has `agent_response`: `'agent_response' in fields_of(GraderContext)`",
    "`GraderContext` has `ground_truth`: `'ground_truth' in fields_of(GraderContext)`",
    "`GraderContext` has `tool_invocations`: `'tool_invocations' in fields_of(GraderContext)`",
    "`GraderContext` has `retrieval_context`: `'retrieval_context' in fields_of(GraderContext)`",
    "`GraderContext` has `turn_index`: `'turn_index' in fields_of(GraderContext)`",
    "`GraderContext` has `test_case_name`: `'test_case_name' in fields_of(GraderContext)`",
    "`GraderContext` has `turn_config`: `'turn_config' in fields_of(GraderContext)`",
    "`GraderResult` has `score`: `'score' in fields_of(GraderResult)`",
    "`GraderResult` has `passed`: `'passed' in fields_of(GraderResult)`",
    "`GraderResult` has `reason`: `'reason' in fields_of(GraderResult)`",
    "`GraderResult` has `details`: `'details' in fields_of(GraderResult)`",
    "`passed` may be missing: `GraderResult(0.5).passed is None`",
    "`reason` may be missing: `GraderResult(0.5).reason is None`",
    "`details` may be missing: `GraderResult(0.5).details is None`",
    "`GraderContext` is frozen: `GraderContext.__dataclass_params__.frozen is True`",
    "`tool_invocations` is a tuple: `GraderContext('q', 'a').tool_invocations == ()`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Multi-turn test cases",
    "a case may have `turns`: `len(TestCase(turns=[{'input': 'a'}, {'input': 'b'}]).turns) == 2`",
    "field `input` of a turn: `Turn(input='a').input == 'a'`",
    "field `ground_truth` of a turn: `Turn(input='a', ground_truth='b').ground_truth == 'b'`",
    "a bare name in `expected_tools` has the count 1: `Turn(input='a', expected_tools=['search']).expected_tools[0].count == 1`",
    "`expected_tools` may have arguments: `Turn(input='a', expected_tools=[{'name': 'subtract', 'args': {'a': {'fuzzy': '60.94'}}}]).expected_tools[0].name == 'subtract'`",
    "field `retrieval_context` of a turn: `[*Turn(input='a', retrieval_context=['c']).retrieval_context] == ['c']`",
    "field `turn_config` of a turn: `Turn(input='a', turn_config={'turn_program': 'x'}).turn_config == {'turn_program': 'x'}`",
    "field `evaluations` of a turn: `Turn(input='a', evaluations=[metric('standard', metric='equality')]).evaluations[0].metric == 'equality'`",
    "ten `files` of a turn: `len(Turn(input='a', files=[{'path': 'a.txt', 'type': 'text'}] * 10).files) == 10`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Test cases",
    "a case has a `name`: `TestCase(name='x', input='a').name == 'x'`",
    "a case may have a `ground_truth`: `TestCase(input='a', ground_truth='b').ground_truth == 'b'`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Per-test-case metric overrides",
    "a case may have its own `evaluations`: `TestCase(input='a', evaluations=[metric('rag', metric_type='faithfulness', threshold=0.85)]).evaluations[0].threshold == 0.85`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Evaluation model configuration",
    "`evaluations.model` is a model: `EvaluationConfig(model={'provider': 'ollama', 'name': 'llama3.2:latest', 'temperature': 0.0}, metrics=[{'type': 'standard', 'metric': 'bleu'}]).model.name == 'llama3.2:latest'`",
    "`temperature` of a model is optional: `LLMProvider(provider='openai', name='gpt-4', temperature=0.0).temperature == 0.0`",
    "`max_tokens` of a model is optional: `LLMProvider(provider='openai', name='gpt-4', max_tokens=100).max_tokens == 100`",
    "`top_p` of a model is optional: `LLMProvider(provider='openai', name='gpt-4', top_p=0.5).top_p == 0.5`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Metric options reference",
    "`threshold` may be missing: `metric('standard', metric='bleu').threshold is None`",
    "`enabled` is true by default: `metric('standard', metric='bleu').enabled is True`",
    "`fail_on_error` is false by default: `metric('standard', metric='bleu').fail_on_error is False`",
    "`model` may be missing: `metric('rag', metric_type='faithfulness').model is None`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Legacy AI metrics",
    "`groundedness` is accepted: `metric('standard', metric='groundedness').metric == 'groundedness'`",
    "`relevance` is accepted: `metric('standard', metric='relevance').metric == 'relevance'`",
    "`coherence` is accepted: `metric('standard', metric='coherence').metric == 'coherence'`",
    "groundedness migrates to this: `metric('rag', metric_type='faithfulness', threshold=0.8).threshold == 0.8`",
)
def test_what_holds(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "RAG metrics",
    "faithfulness requires `input`: `FaithfulnessEvaluator.get_param_spec().required == {'actual_output', 'retrieval_context'}`",
    differs="Answer and retrieved texts are enough, as its data model says.",
)
def test_what_holds_in_another_way(request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names())


@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "GEval — custom criteria",
    "`name` is required: `metric('geval', criteria='polite')`",
    "`criteria` is required: `metric('geval', name='Tone')`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Troubleshooting",
    "another `type` is refused: `metric('mood')`",
    "another `metric` of `standard` is refused: `metric('standard', metric='mood')`",
    "another `metric_type` of `rag` is refused: `metric('rag', metric_type='mood')`",
    "`grader` of `code` must name a module and a callable: `metric('code', grader='graders')`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Multi-turn test cases",
    "an empty `input` of a turn is refused: `Turn(input='')`",
    "`input` of a turn is required: `Turn(ground_truth='b')`",
    "`input` beside `turns` is refused: `TestCase(turns=[{'input': 'a'}], input='a')`",
    "`ground_truth` beside `turns` is refused: `TestCase(turns=[{'input': 'a'}], ground_truth='b')`",
    "`expected_tools` beside `turns` is refused: `TestCase(turns=[{'input': 'a'}], expected_tools=['x'])`",
    "`files` beside `turns` is refused: `TestCase(turns=[{'input': 'a'}], files=[{'path': 'a.txt', 'type': 'text'}])`",
    "`retrieval_context` beside `turns` is refused: `TestCase(turns=[{'input': 'a'}], retrieval_context=['c'])`",
    "eleven `files` of a turn are refused: `Turn(input='a', files=[{'path': 'a.txt', 'type': 'text'}] * 11)`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Evaluation model configuration",
    "`provider` of a model is required: `LLMProvider(name='gpt-4')`",
    "another `provider` is refused: `LLMProvider(provider='mood', name='gpt-4')`",
)
@pytest.mark.claims(
    "holodeck-evaluations-guide",
    "Metric options reference",
    "a `threshold` above 1 is refused: `metric('rag', metric_type='faithfulness', threshold=1.5)`",
)
def test_what_is_refused(request: pytest.FixtureRequest) -> None:
    check_that_all_are_refused(request, names())
