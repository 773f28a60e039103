"""Who grades: the models of a suite's judged metrics, each built once."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping

from holodeck_action.llm.calls import Account
from holodeck_action.llm.clients import Clients
from holodeck_action.llm.judge import JudgeModel, judge_plan
from holodeck_action.llm.providers import Keyless, ModelConfigError, ModelPlan
from holodeck_action.metrics.judging.libraries import begin, ready
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.errors import Problem, SourceMark
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.panels import Panel, panel_of
from holodeck_action.suite.values import Suite


class Judges:
    """The judges of a suite; equal references share one."""

    def __init__(self, suite: Suite, environ: Mapping[str, str], clients: Clients) -> None:
        """Prepare; nothing is imported or opened.

        Args:
            suite: the suite.
            environ: where keys and addresses are that the references omit.
            clients: the wire.
        """
        self._suite = suite
        self._environ = environ
        self._clients = clients
        self._models: dict[tuple[Account, str, str | None, str], JudgeModel] = {}
        self._importing: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start the process in which libraries grade; they are imported there while a run is opened."""
        for library in self._libraries():
            begin(library)

    def _libraries(self) -> list[str]:
        cases = self._suite.cases
        metrics = [*judged_metrics(cases).values(), *library_metrics(cases).values()]
        return [library for library in dict.fromkeys(config.library for config in metrics) if library is not None]

    def prepare(self) -> None:
        """Begin to import what grades, in a process of its own, while the agent is asked."""
        if self._importing is None:
            self._importing = asyncio.get_running_loop().create_task(_import(self._libraries()))

    async def ready(self) -> None:
        """Wait until what grades is imported, before anybody's deadline runs; begin where nobody has.

        What cannot be imported is the trouble of who needs it: nothing is raised.
        """
        self.prepare()
        assert self._importing is not None
        await asyncio.wait([self._importing])

    def of(self, model: LLMProvider | None) -> JudgeModel:
        """Return the judge of a metric.

        Args:
            model: the metric's own reference; None for the suite's.

        Raises:
            ModelConfigError: no key, or an address that is none.
        """
        plan = plan_of(self._suite, model, self._environ)
        return self._of(plan)

    def panel(self, config: Metric) -> tuple[Panel, list[JudgeModel], list[JudgeModel]] | None:
        """Return a metric's panel with its judges and those that stand in for them; None where one model grades.

        Raises:
            ModelConfigError: no key, or an address that is none.
        """
        panel = panel_of(self._suite.policy.judges, config)
        if panel is None:
            return None
        judges, others = _panel_plans(self._suite, panel, self._environ)
        return panel, [self._of(plan) for plan in judges], [self._of(plan) for plan in others]

    def _of(self, plan: ModelPlan) -> JudgeModel:
        key = (plan.account, plan.name, plan.api_version, json.dumps(dict(plan.settings), sort_keys=True, default=str))
        judge = self._models.get(key)
        if judge is None:
            judge = self._models[key] = JudgeModel(plan, self._clients)
        return judge


async def _import(libraries: Iterable[str]) -> None:
    for library in libraries:
        await ready(library)


Judged = Mapping[tuple[SourceMark, str], Metric]
"""Metrics by place and label, from `judged_metrics` and `library_metrics`."""


def problems_of(suite: Suite, metrics: Judged, environ: Mapping[str, str]) -> list[Problem]:
    """Name every metric that nobody can grade, or DeepEval cannot compute, with these packages and this environment."""
    return _problems(metrics, lambda config: packages_missing(config) or settings_problem(suite, config, environ))


def check_judges(suite: Suite, metrics: Judged, environ: Mapping[str, str]) -> tuple[list[Problem], list[Problem]]:
    """Check the judges of metrics without asking them.

    Returns:
        What is wrong wherever the suite is run; and where nothing is, what is missing here: one problem for each
        package and key, at the first metric that needs it.
    """
    keyless = Keyless(environ)
    wrong = _problems(metrics, lambda config: settings_problem(suite, config, keyless))
    if wrong:
        return wrong, []
    first: dict[str, Problem] = {}
    for problem in problems_of(suite, metrics, environ):
        first.setdefault(problem.message, problem)
    return [], [*first.values()]


def _problems(metrics: Judged, problem_of: Callable[[Metric], str | None]) -> list[Problem]:
    found = ((mark, label, problem_of(config)) for (mark, label), config in sorted(metrics.items()))
    return [
        Problem(mark, label, f"{problem}; or set enabled: false to go without")
        for mark, label, problem in found
        if problem is not None
    ]


def packages_missing(config: Metric) -> str | None:
    """Return which packages a metric needs that are not installed here; None when all are."""
    library = None if config.library is None else registry.libraries()[config.library]
    if library is None or _installed(library.imports):
        return None
    return f"needs packages that are not installed (pip install 'holodeck-action[{library.extra}]')"


def settings_problem(suite: Suite, config: Metric, environ: Mapping[str, str]) -> str | None:
    """Return why nobody can grade a judged metric, wherever it is run: its settings, or those of its judges."""
    problem = config.settings_problem()
    if problem is not None or not config.needs_judge:
        return problem
    supported = config.supported_providers
    try:
        if supported is not None:
            # The provider first: nobody shall look for a key that is of no use.
            plans = plans_of(suite, config, Keyless(environ))
            other = next((plan for plan in plans if plan.provider not in supported), None)
            if other is not None:
                return config.unsupported_judge(other.title)
        plans_of(suite, config, environ)
    except ModelConfigError as error:
        return str(error)
    return None


def _installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def plans_of(suite: Suite, config: Metric, environ: Mapping[str, str]) -> tuple[ModelPlan, ...]:
    """Decide how all the models are reached that may grade a metric.

    Raises:
        ModelConfigError: no key, or an address that is none; a panel that could never give a verdict; or the model
            under test among the fallbacks.
    """
    panel = panel_of(suite.policy.judges, config)
    if panel is None:
        return (plan_of(suite, config.own_model, environ),)
    if panel.min_successful > len(panel.models):
        raise ModelConfigError(
            f"min_successful_judges is {panel.min_successful}, but {panel.origin} name {len(panel.models)} "
            f"judge{'s' if len(panel.models) > 1 else ''}: name more models, or ask for fewer"
        )
    judges, fallbacks = _panel_plans(suite, panel, environ)
    if fallbacks:
        # Its key may be nowhere where another target answers.
        tested = judge_plan(suite.agent.model, Keyless(environ), where="model")
        for plan in fallbacks:
            if _same_model(plan, tested):
                raise ModelConfigError(
                    f"fallback_models of {panel.origin} name the model under test ({plan.title}), which must not "
                    "stand in as its own judge: name another one"
                )
    return (*judges, *fallbacks)


def _panel_plans(
    suite: Suite, panel: Panel, environ: Mapping[str, str]
) -> tuple[tuple[ModelPlan, ...], tuple[ModelPlan, ...]]:
    judges = tuple(
        plan_of(suite, model, environ, where=f"models[{at}] of {panel.origin}") for at, model in enumerate(panel.models)
    )
    fallbacks = tuple(
        judge_plan(model, environ, where=f"fallback_models[{at}] of {panel.origin}")
        for at, model in enumerate(panel.fallbacks)
    )
    return judges, fallbacks


def _same_model(one: ModelPlan, other: ModelPlan) -> bool:
    return (one.provider, one.name, one.account.base_url.rstrip("/")) == (
        other.provider,
        other.name,
        other.account.base_url.rstrip("/"),
    )


def plan_of(
    suite: Suite, model: LLMProvider | None, environ: Mapping[str, str], *, where: str = "the metric's `model`"
) -> ModelPlan:
    """Decide how the judge of a metric is reached: its own model, else that of `evaluations`, else the agent's.

    Args:
        suite: the suite.
        model: the metric's own reference; None where it has none.
        environ: where keys and addresses are that the references omit.
        where: what the metric's own reference is called in messages.

    Raises:
        ModelConfigError: no key, or an address that is none.
    """
    if model is not None:
        return judge_plan(model, environ, where=where)
    evaluations = suite.agent.evaluations
    if evaluations is not None and evaluations.model is not None:
        return judge_plan(evaluations.model, environ, where="evaluations.model")
    return judge_plan(suite.agent.model, environ, where="model")
