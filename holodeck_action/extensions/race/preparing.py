"""Prepares the variants of a race: each variant is the suite with a different agent and the same cases."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from holodeck_action.decide.survey import is_expired
from holodeck_action.extensions.race.objective import Objective, objective_of
from holodeck_action.extensions.race.variants import (
    INSTRUCTIONS,
    TARGET,
    Variant,
    VariantError,
    changes_agent,
    vary_suite,
)
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.run.environments.extras import agent_extras
from holodeck_action.run.loading import LoadedSuite, with_lines
from holodeck_action.run.preflight import prepare_suites, with_target
from holodeck_action.run.run import Run
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.targets import OWN_MODEL, ModelTarget
from holodeck_action.suite.values import Case, Suite
from holodeck_action.targets.factory import describe_target
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import mask_keys


class PreparedRace(Struct, frozen=True):
    """A race that is ready to run.

    Attributes:
        variants: the variants.
        items: the suite of each variant.
        objective: the objective that the race maximizes.
        order: positions of the cases in the order of the race, which is random and the same in each race.
        weights: the weight of each case relative to the heaviest, by position.
        drops: whether variants that cannot be the best are dropped.
    """

    variants: Sequence[Variant]
    items: Sequence[Run]
    objective: Objective
    order: Sequence[int]
    weights: Sequence[float]
    drops: bool = True

    def to_open(self, folders: Sequence[GivenPath | None]) -> list[Run]:
        """Return the variants to open, each with its folder."""
        return [structs.replace(item, folder=folder) for item, folder in zip(self.items, folders, strict=True)]

    @property
    def cases(self) -> Sequence[Case]:
        """The cases of the race, in the order of the suite."""
        return self.items[0].cases


class RacedSuite(Struct, frozen=True):
    """A suite whose variants can be raced.

    Attributes:
        loaded: the suite.
        head: the suite as it is, with the cases that count in a race.
        objective: the objective of its races.
    """

    loaded: LoadedSuite
    head: Run
    objective: Objective

    def race(self, variants: Sequence[Variant], cases: Sequence[Case], *, drops: bool = True) -> PreparedRace:
        """Apply variants to the suite.

        Args:
            variants: the variants.
            cases: the cases of the race.
            drops: whether variants that cannot be the best are dropped.

        Raises:
            ConfigurationError: a variant cannot be used.
        """
        head = structs.replace(self.head, cases=tuple(cases))
        items, problems = [], []
        for variant in variants:
            try:
                items.append(_vary(head, self.loaded, variant))
            except VariantError as error:
                problems.append(f"variant {one_line(mask_keys(variant.name), 200)}: {error}")
            except ConfigurationError as error:
                problems += map(str, error.problems)
        if problems:
            raise ConfigurationError(list(dict.fromkeys(map(head.redactor.text, problems))))
        heaviest = max(case.weight for case in cases)
        return PreparedRace(
            variants,
            items,
            self.objective,
            sorted(range(len(cases)), key=lambda at: hashlib.sha256(f"race {cases[at].id}".encode()).digest()),
            [case.weight / heaviest if heaviest else 0.0 for case in cases],
            drops,
        )


def raced_suite(loaded: LoadedSuite, weights: Mapping[str, float], place: str) -> RacedSuite:
    """Return a suite with the cases that count in a race: quarantined cases do not.

    Args:
        loaded: the suite.
        weights: the weight of each metric of the objective; empty for the pass rate.
        place: the option or key that names the metrics, for messages.

    Raises:
        ConfigurationError: the suite or the objective cannot be used, or no case counts.
    """
    (head,) = prepare_suites((loaded,))
    objective = objective_of(head, weights, place)
    today = datetime.now(UTC).date()
    waived = {entry.case for entry in head.suite.policy.quarantine if not is_expired(entry, today)}
    cases = tuple(case for case in head.cases if case.id not in waived and objective.applies_to(case))
    if not cases:
        raise ConfigurationError([f"{head.place}: no case counts in a race for {objective}; quarantined cases do not"])
    # There is no base, no end before the race is decided, and no use for more answers at the same time.
    settings = structs.replace(
        head.settings,
        compared=False,
        stop_when_certain=False,
        concurrency=head.settings.least_concurrency,
        start_concurrency=None,
    )
    head = structs.replace(head, cases=cases, settings=settings, graded_by=loaded)
    return RacedSuite(loaded, head, objective)


def prepare_race(loaded: LoadedSuite, variants: Sequence[Variant], metric: str | None) -> PreparedRace:
    """Apply the variants to a suite.

    Args:
        loaded: the suite.
        variants: the variants.
        metric: name of the metric to maximize; None for the pass rate.

    Raises:
        ConfigurationError: the suite, a variant or the objective cannot be used.
    """
    if all(TARGET in variant.settings for variant in variants):
        # The suite's own target does not run, and need not be there.
        loaded = loaded.with_flags(target=str(variants[0].settings[TARGET]))
    suite = raced_suite(loaded, {} if metric is None else {metric: 1.0}, "--objective")
    return suite.race(variants, suite.head.cases)


def _vary(head: Run, loaded: LoadedSuite, variant: Variant) -> Run:
    """Return the suite of a variant.

    Raises:
        VariantError: a setting of the variant cannot be used.
        ConfigurationError: the variant's target cannot be used.
    """
    written = variant.settings.get(TARGET)
    suite = vary_suite(loaded.suite, variant, Checkout.unbounded(loaded.context.cwd))
    loaded = structs.replace(loaded if written is None else loaded.with_flags(target=str(written)), suite=suite)
    try:
        equipped, target, files = with_target(loaded)
        if changes_agent(variant) and not isinstance(target, ModelTarget):
            key = next(key for key in variant.settings if key != TARGET)
            raise VariantError(
                f"{key}: applies to the suite's own model, but {describe_target(target)} answers; "
                f"give --target {OWN_MODEL}"
            )
        loaded.context.install(agent_extras(suite, target))
    except TargetError as error:
        raise ConfigurationError(with_lines(loaded.target_problems(error), [loaded])) from error
    return structs.replace(
        head,
        suite=suite,
        context=loaded.context,
        target=target,
        target_files=files,
        python=equipped.python,
        variant=one_line(mask_keys(variant.name), 200),
        inputs=_inputs(variant, suite),
    )


def _inputs(variant: Variant, suite: Suite) -> Mapping[str, Any]:
    """Return the inputs of a variant's trials, in addition to the suite's files and the target."""
    text = suite.agent.instructions.inline if INSTRUCTIONS in variant.settings else None
    written = json.dumps([dict(variant.settings), text], sort_keys=True)
    return {"variant": hashlib.sha256(written.encode("utf-8", "surrogatepass")).hexdigest()}
