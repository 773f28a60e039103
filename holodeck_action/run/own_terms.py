"""Adds a base suite's own gates, metrics and cases (its terms) to its record, whose answers were graded by the head's
metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec.structs import replace

from holodeck_action.metrics.tools.tool_assertions import check_tools
from holodeck_action.record.evaluation import Criteria
from holodeck_action.record.facts import Nothing
from holodeck_action.record.judge_card import Configuration
from holodeck_action.record.own_terms import OwnCase, OwnPlan, OwnTerms, OwnTurn, text_digest
from holodeck_action.record.record import Record
from holodeck_action.run.case_records import case_record
from holodeck_action.scoring.configurations import configuration_of
from holodeck_action.scoring.planning import criteria_of
from holodeck_action.suite.values import Case, MetricSpec, Suite, Turn
from holodeck_action.text.redaction import Redactor


def with_own_terms(
    record: Record, suite: Suite, plan: OwnPlan, environ: Mapping[str, str], redactor: Redactor
) -> Record:
    """Return a base's record with the base suite's own gates, metrics and cases added.

    Args:
        record: the base's record, whose answers were graded by the head's metrics.
        suite: the base suite.
        plan: the base suite's own terms.
        environ: variables with the keys and URLs that references to judges omit.
        redactor: masks secrets.
    """
    kept = {case.id for case in record.cases}
    table = _Criteria(redactor)
    cases = tuple(found for case in plan.cases if (found := _own_case(case, table, redactor)).id in kept)
    own = OwnTerms(
        gates=plan.gates,
        baseline=plan.baseline,
        stop_when_decided=suite.policy.trials.stop_when_decided,
        consistent=suite.policy.judges.consistent,
        configurations=dict(_configurations(record, suite, plan.cases, environ, redactor)),
        criteria=tuple(table.criteria),
        cases=cases,
    )
    return replace(record, own=own)


class _Criteria:
    """Collects the criteria of metrics; criteria that several cases share are stored once."""

    def __init__(self, redactor: Redactor) -> None:
        self.criteria: list[Criteria] = []
        self._redactor = redactor
        self._places: dict[int, int] = {}

    def index_of(self, spec: MetricSpec) -> int:
        # By identity: entries contain mappings and lists, and the suite keeps them alive.
        if id(spec) not in self._places:
            self._places[id(spec)] = len(self.criteria)
            self.criteria.append(self._redactor.value(criteria_of(spec)))
        return self._places[id(spec)]


def _own_case(case: Case, table: _Criteria, redactor: Redactor) -> OwnCase:
    recorded = case_record(case, (), redactor)
    return OwnCase(
        id=recorded.id,
        name=recorded.name,
        content_hash=recorded.content_hash,
        source=recorded.source,
        repeat=recorded.repeat,
        min_pass=recorded.min_pass,
        weight=recorded.weight,
        asserting=recorded.asserting,
        turns=tuple(_own_turn(turn, table, redactor) for turn in case.turns),
    )


def _own_turn(turn: Turn, table: _Criteria, redactor: Redactor) -> OwnTurn:
    expected = () if turn.expected_tools is None else check_tools(turn.expected_tools, Nothing())
    return OwnTurn(
        question=text_digest(redactor.text(turn.input)),
        ground_truth=None if turn.ground_truth is None else text_digest(redactor.text(turn.ground_truth)),
        tools=tuple(redactor.text(assertion.expected) for assertion in expected),
        metrics=tuple((redactor.text(spec.label), table.index_of(spec)) for spec in turn.metrics),
    )


def _configurations(
    record: Record, suite: Suite, cases: Sequence[Case], environ: Mapping[str, str], redactor: Redactor
) -> Iterator[tuple[str, Configuration]]:
    specs = {spec.label: spec for case in cases for turn in case.turns for spec in turn.metrics if spec.config.enabled}
    for label, spec in sorted(specs.items()):
        found = configuration_of(suite, spec, None, environ, redactor) if spec.config.needs_judge else None
        if found is not None:
            name = redactor.text(label)
            # This program would have graded it, too.
            graded = record.configurations.get(name)
            yield name, found if graded is None else replace(found, version=graded.version)
