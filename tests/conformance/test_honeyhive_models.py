"""HoneyHive's evaluation data models, row by row, in the documents that `export` writes."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

import jsonschema
import pytest

from holodeck_action.record.evaluation import ErrorInfo
from tests.commands.project import Project
from tests.conformance.expressions import Names, check_that_all_hold, rows
from tests.extensions.honeyhive.test_export import EQUALITY, F1, FACTS, LENGTH, compared, stored
from tests.record.records import case_of, evaluation, record, turn

pytestmark = pytest.mark.needs()
MISSING = ErrorInfo("EvaluationError", "not found", "missing_reference", {"evaluator": "factual_accuracy"})


def exported(project: Project) -> dict[str, Any]:
    finished = project.run("export", "out/results.json", "--format", "honeyhive")
    assert finished.code == 0, finished.stderr
    document: dict[str, Any] = json.loads(finished.stdout)
    return document


def of_kinds(project: Project) -> dict[str, Any]:
    """An exported evaluation of each kind, with every field of HoneyHive's, and others by a name."""
    full: dict[str, Any] = {
        "confidence": 0.92,
        "cost_usd": 0.001,
        "duration_ms": 1250.5,
        "metadata": {"language": "en"},
    }
    others = {
        "full": evaluation(0.85, **full),
        "whole": evaluation(1),
        "binary": evaluation(True),
        "category": evaluation("excellent"),
        "unscored": evaluation(None, explanation="looked at"),
        "failed": evaluation(None, status="failed", error=MISSING),
        "skipped": evaluation(None, status="skipped"),
        "pending": evaluation(None, status="pending"),
    }
    kinds = {kind: evaluation(0.9, kind=kind, metadata=facts) for kind, facts in FACTS.items()}
    made = {**kinds, **others}
    stored(project, record(case_of(turn(*made.values()))))
    return dict(zip(made, exported(project)["evaluation_batch"]["evaluations"], strict=True))


def of_a_run(project: Project) -> dict[str, Any]:
    """The parts of an export of a run whose answers have a weighted score."""
    cases = [{"name": name, "input": "?", "ground_truth": name} for name in ("a", "b")]
    project.suite(cases, [EQUALITY, LENGTH, F1])
    project.answers([{"case": "a", "response": "a"}, {"case": "b", "response": "x"}])
    gate = {"method": "weighted_average", "weights": {"f1_score": 3, "length": 1}, "min": 0.1}
    project.policy(target="recorded:answers.jsonl", gates={"summary": gate})
    project.run("run", "-o", "out")
    document = exported(project)
    return {
        "batch": document["evaluation_batch"],
        "answer": document["multi_evaluation_results"][0],
        "first": document["evaluation_batch"]["evaluations"][0],
        "performance": document["evaluation_performance"],
        "quality_block": document["evaluation_quality"],
        "confidences": document["evaluation_quality"]["confidence_distribution"],
    }


def names(**own: Any) -> Names:
    return Names((), date=datetime.fromisoformat, matches=re.fullmatch, **own)


@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Core Evaluation Model",
    "`evaluation_id` is a text: `isinstance(full['evaluation_id'], str)`",
    "`target_event_id` is a text: `isinstance(full['target_event_id'], str)`",
    "`evaluator_name` is a text: `full['evaluator_name'] == 'bleu'`",
    "`evaluator_version` is a semantic version: `matches('[0-9]+[.][0-9]+[.][0-9]+', full['evaluator_version'])`",
    "a `score` may be a share: `full['score'] == 0.85`",
    "a `score` may be a whole number: `whole['score'] == 1`",
    "a `score` may be a boolean: `binary['score'] is True`",
    "a `score` may be a category: `category['score'] == 'excellent'`",
    "a `score` may be missing: `unscored['score'] is None`",
    "an explanation may stand without a score: `unscored['explanation'] == 'looked at'`",
    "`explanation` is a text: `full['explanation'] == 'compared'`",
    "`confidence` is a number from 0 to 1: `full['confidence'] == 0.92`",
    "`confidence` may be missing: `whole['confidence'] is None`",
    "`criteria` is a mapping: `isinstance(full['criteria'], dict)`",
    "`criteria` has the threshold: `full['criteria']['threshold'] == 0.5`",
    "`metadata` is a mapping of facts: `full['metadata'] == {'language': 'en'}`",
    "`timestamp` is of ISO 8601: `date(full['timestamp']).year == 2026`",
    "`duration_ms` is in milliseconds: `full['duration_ms'] == 1250.5`",
    "`cost_usd` is in dollars: `full['cost_usd'] == 0.001`",
    "`cost_usd` may be missing: `whole['cost_usd'] is None`",
    "`status` may be `completed`: `full['status'] == 'completed'`",
    "`status` may be `failed`: `failed['status'] == 'failed'`",
    "`status` may be `skipped`: `skipped['status'] == 'skipped'`",
    "`status` may be `pending`: `pending['status'] == 'pending'`",
    "`error` has `type`: `failed['error']['type'] == 'EvaluationError'`",
    "`error` has `message`: `failed['error']['message'] == 'not found'`",
    "`error` has `code`: `failed['error']['code'] == 'missing_reference'`",
    "`error` has `context`: `failed['error']['context'] == {'evaluator': 'factual_accuracy'}`",
    "`error` is missing where nothing failed: `full['error'] is None`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Built-in Evaluator Models",
    "quality: it has all fields of an evaluation: `{*full} <= {*quality}`",
    "factual accuracy: it has all fields of an evaluation: `{*full} <= {*factual_accuracy}`",
    "toxicity: it has all fields of an evaluation: `{*full} <= {*toxicity}`",
    "relevance: it has all fields of an evaluation: `{*full} <= {*relevance}`",
    "length: it has all fields of an evaluation: `{*full} <= {*length}`",
    "quality: `dimensions` has `relevance`: `'relevance' in quality['dimensions']`",
    "quality: `dimensions` has `coherence`: `'coherence' in quality['dimensions']`",
    "quality: `dimensions` has `clarity`: `'clarity' in quality['dimensions']`",
    "quality: `dimensions` has `completeness`: `'completeness' in quality['dimensions']`",
    "quality: `dimensions` has `accuracy`: `'accuracy' in quality['dimensions']`",
    "quality: dimensions are numbers: `quality['dimensions']['coherence'] == 0.5`",
    "factual accuracy: a claim has its text: `factual_accuracy['factual_claims'][0]['claim'] == 'Paris'`",
    "factual accuracy: a claim is `verified` or not: `factual_accuracy['factual_claims'][0]['verified'] is True`",
    "factual accuracy: a claim has `sources`: `factual_accuracy['factual_claims'][0]['sources'] == ['a']`",
    "factual accuracy: `citation_accuracy` may be missing: `factual_accuracy['citation_accuracy'] is None`",
    "factual accuracy: `hallucination_detected` is a boolean: `factual_accuracy['hallucination_detected'] is False`",
    "toxicity: `toxicity_categories` has scores: `toxicity['toxicity_categories']['profanity'] == 0.1`",
    "toxicity: `overall_toxicity` is a number: `toxicity['overall_toxicity'] == 0.1`",
    "toxicity: `content_warnings` is a list: `toxicity['content_warnings'] == ['mild']`",
    "relevance: `query_intent_match`: `relevance['query_intent_match'] == 0.9`",
    "relevance: `topic_alignment`: `relevance['topic_alignment'] == 1.0`",
    "relevance: `information_completeness`: `relevance['information_completeness'] == 0.4`",
    "length: `character_count`: `length['character_count'] == 5`",
    "length: `word_count`: `length['word_count'] == 1`",
    "length: `sentence_count`: `length['sentence_count'] == 1`",
    "length: `expected_length_range`: `length['expected_length_range'] == {'min_words': 2}`",
    "length: `length_appropriateness`: `length['length_appropriateness'] == 'too_short'`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Data Models",
    "an evaluation is written with HoneyHive's names: `{'evaluation_id', 'target_event_id', 'evaluator_name', 'score', 'status'} <= {*full}`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Serialization",
    "JSON has `evaluation_id`: `'evaluation_id' in full`",
    "JSON has `target_event_id`: `'target_event_id' in full`",
    "JSON has `evaluator_name`: `'evaluator_name' in full`",
    "JSON has `score`: `'score' in full`",
    "JSON has `explanation`: `'explanation' in full`",
    "JSON has `confidence`: `'confidence' in full`",
    "JSON has `timestamp`: `'timestamp' in full`",
)
def test_fields_of_evaluations(project: Project, request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names(**of_kinds(project)))


@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Multi-Evaluator Results",
    "`target_event_id` is that of the evaluated answer: `answer['target_event_id'] == answer['evaluations'][0]['target_event_id']`",
    "`evaluations` is a list: `len(answer['evaluations']) == 3`",
    "`summary_score` is over all evaluations: `answer['summary_score'] == 1.0`",
    "`summary_method` may be `weighted_average`: `answer['summary_method'] == 'weighted_average'`",
    "`weights` by metric: `answer['weights'] == {'f1_score': 3, 'length': 1}`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Batch Model",
    "`batch_id` is a text: `isinstance(batch['batch_id'], str)`",
    "`evaluations` is a list: `len(batch['evaluations']) == 6`",
    "`batch_metadata` has `batch_size`: `batch['batch_metadata']['batch_size'] == 6`",
    "`batch_metadata` has `created_at`: `date(batch['batch_metadata']['created_at'])`",
    "`batch_metadata` has `evaluator_versions`: `batch['batch_metadata']['evaluator_versions']['length'] == '1.0.0'`",
    "`batch_metadata` has `processing_time_ms`: `batch['batch_metadata']['processing_time_ms'] >= 0`",
    "`status` may be `completed`: `batch['status'] == 'completed'`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Metrics",
    "`total_evaluations`: `performance['total_evaluations'] == 6`",
    "`successful_evaluations`: `performance['successful_evaluations'] == 6`",
    "`failed_evaluations`: `performance['failed_evaluations'] == 0`",
    "`success_rate` is a share: `performance['success_rate'] == 1.0`",
    "`average_duration_ms` is a number: `performance['average_duration_ms'] >= 0`",
    "`p95_duration_ms` is a number: `performance['p95_duration_ms'] >= 0`",
    "`total_cost_usd` is there: `'total_cost_usd' in performance`",
    "`evaluator_agreement` is there: `'evaluator_agreement' in quality_block`",
    "`inter_evaluator_correlation` is a mapping: `isinstance(quality_block['inter_evaluator_correlation'], dict)`",
    "`confidence_distribution` has `high_confidence`: `'high_confidence' in confidences`",
    "`confidence_distribution` has `medium_confidence`: `'medium_confidence' in confidences`",
    "`confidence_distribution` has `low_confidence`: `'low_confidence' in confidences`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Core Evaluation Model",
    "`evaluation_id` is made by the program, a UUID of version 4 after `eval_`: `matches('eval_[0-9a-f]{8}-[0-9a-f]{4}-4.*', first['evaluation_id'])`",
    "`target_event_id` is a UUID of version 4 after `evt_`: `matches('evt_[0-9a-f]{8}-[0-9a-f]{4}-4.*', first['target_event_id'])`",
    "`timestamp` is made by the program: `date(first['timestamp'])`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "See Also",
    "an evaluation refers to its event: `first['target_event_id'] == answer['target_event_id']`",
)
def test_parts_of_an_export(project: Project, request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names(**of_a_run(project)))


@pytest.mark.full
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Common Evaluation Patterns",
    "A/B: `evaluator_name` is `ab_test_comparison`: `ab['evaluator_name'] == 'ab_test_comparison'`",
    "A/B: `score` is the preference: `ab['score'] == data['preference_score']`",
    "A/B: `explanation` is a text: `isinstance(ab['explanation'], str)`",
    "A/B: `variant_a_event_id` names a run: `isinstance(data['variant_a_event_id'], str)`",
    "A/B: `variant_b_event_id` names a run: `isinstance(data['variant_b_event_id'], str)`",
    "A/B: `confidence_interval` is two numbers: `len(data['confidence_interval']) == 2`",
    "A/B: `sample_size` is the number of pairs: `data['sample_size'] == 20`",
    "A/B: `statistical_significance` is a boolean: `data['statistical_significance'] is True`",
    "temporal: `evaluator_name` is `temporal_quality`: `past['evaluator_name'] == 'temporal_quality'`",
    "temporal: `current_score`: `past['current_score'] == 1.0`",
    "temporal: `historical_scores`, the oldest first: `past['historical_scores'] == [0.5, 1.0]`",
    "temporal: `trend` may be `improving`: `past['trend'] == 'improving'`",
    "temporal: `change_rate`: `past['change_rate'] == 0.5`",
    "temporal: `stability_score`: `past['stability_score'] == 0.5`",
    "an `evaluation_id` for each comparison: `ab['evaluation_id'] != past['evaluation_id']`",
)
def test_patterns_against_an_earlier_run(project: Project, request: pytest.FixtureRequest) -> None:
    compared(project, set(range(10)), set())
    document = exported(project)
    ab, past = document["ab_test_comparisons"][0], document["temporal_evaluations"][0]
    check_that_all_hold(request, names(ab=ab, data=ab["comparison_data"], past=past))


@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Core Evaluation Model",
    "`evaluation_id` is required: `first.pop('evaluation_id')`",
    "`target_event_id` is required: `first.pop('target_event_id')`",
    "`evaluator_name` is required: `first.pop('evaluator_name')`",
    "another `status` is not valid: `first.update(status='maybe')`",
    "`explanation` is a text or missing: `first.update(explanation=3)`",
    "`duration_ms` is a number or missing: `first.update(duration_ms='long')`",
    "`cost_usd` is a number or missing: `first.update(cost_usd='much')`",
    "`error` is a mapping or missing: `first.update(error='failed')`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Batch Model",
    "another `status` is not valid: `batch.update(status='done')`",
    "`batch_id` is required: `batch.pop('batch_id')`",
    "`evaluations` is required: `batch.pop('evaluations')`",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Serialization",
    "`score` is a number, a boolean, a text or missing: `first.update(score=[1])`",
    "`confidence` is a number or missing: `first.update(confidence='high')`",
)
def test_the_schema_refuses_what_the_models_do_not_allow(project: Project, request: pytest.FixtureRequest) -> None:
    whole = of_a_run(project)
    schema = json.loads(project.run("schema", "evaluation-batch").stdout)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(whole["batch"])
    for _, expressions in rows(request):
        for expression in expressions:
            batch = json.loads(json.dumps(whole["batch"]))
            eval(expression, {"batch": batch, "first": batch["evaluations"][0]})
            assert not validator.is_valid(batch), expression


@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Core Evaluation Model",
    "versions begin with `v`: `not first['evaluator_version'].startswith('v')`",
    differs="The version is written without the letter.",
)
def test_versions_have_no_letter(project: Project, request: pytest.FixtureRequest) -> None:
    check_that_all_hold(request, names(**of_a_run(project)))


@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Multi-Evaluator Results",
    "`summary_method` may be `custom`: `not valid(summary_method='custom')`",
    differs="A callable summarises whole runs, so it gives an answer no summary.",
)
@pytest.mark.claims(
    "honeyhive-evaluation-data-models",
    "Evaluation Batch Model",
    "`status` may be `pending` or `processing`: `batch['status'] not in ('pending', 'processing')`",
    differs="A batch is written when the run has ended, so it is completed or failed.",
)
def test_what_an_answer_and_a_batch_never_say(project: Project, request: pytest.FixtureRequest) -> None:
    whole = of_a_run(project)
    schema = json.loads(project.run("schema", "multi-evaluation-result").stdout)
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid(whole["answer"])
    whole["valid"] = lambda **changes: validator.is_valid({**whole["answer"], **changes})
    check_that_all_hold(request, names(**whole))
