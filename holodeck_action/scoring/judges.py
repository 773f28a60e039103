"""Creates the judges of a suite, the models that grade its metrics, and checks that they can be used."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable, Mapping

from msgspec import Struct

from holodeck_action.llm.calls import Account
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.embeddings import Embedder, EmbeddingPlan, resolve_embedding
from holodeck_action.llm.judge import JudgeModel, judge_plan
from holodeck_action.llm.providers import KeylessEnvironment, ModelConfigError, ModelPlan
from holodeck_action.metrics.unrelated_texts import ExpectedTexts
from holodeck_action.seam import registry
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.errors import Problem, SourceMark
from holodeck_action.suite.model.metric_base import Metric
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.suite.panels import Panel, panel_of
from holodeck_action.suite.values import Suite


class PanelJudges(Struct, frozen=True):
    """The panel of a metric and its judges, ready to be called.

    Attributes:
        panel: the settings.
        judges: the judges, in the order of the panel.
        fallbacks: the judges, in order, that replace panel judges that give no verdict.
        second: the judge to which close verdicts are escalated; None if there is no escalation.
    """

    panel: Panel
    judges: list[JudgeModel]
    fallbacks: list[JudgeModel]
    second: JudgeModel | None


class Judges:
    """The judges of a suite; equal model references share one judge."""

    def __init__(self, suite: Suite, environ: Mapping[str, str], sender: RequestSender) -> None:
        """Store the arguments; nothing is imported or opened.

        Args:
            suite: the suite.
            environ: environment variables, with keys and URLs that model references omit.
            sender: the clients that make the model calls.
        """
        self._suite = suite
        self._environ = environ
        self._clients = sender
        self._models: dict[tuple[Account, str, str | None, str], JudgeModel] = {}
        self._embedders: dict[str, Embedder] = {}
        self.expected_texts = ExpectedTexts()

    def judge_for(self, model: LLMProvider | None) -> JudgeModel:
        """Return the judge of a metric.

        Args:
            model: the metric's own model; None to use the suite's.

        Raises:
            ModelConfigError: a key is missing, or a URL is invalid.
        """
        plan = plan_of(self._suite, model, self._environ)
        return self._judge_of(plan)

    def embedder_for(self, model_name: str) -> Embedder:
        """Return the embedder for a model.

        Raises:
            ModelConfigError: a key is missing, or the provider has no embedding models.
        """
        if model_name not in self._embedders:
            self._embedders[model_name] = Embedder(
                _embedding_plan(self._suite, model_name, self._environ), self._clients
            )
        return self._embedders[model_name]

    def panel(self, config: Metric) -> PanelJudges | None:
        """Return a metric's panel with its judges; None if the metric has a single judge.

        Raises:
            ModelConfigError: a key is missing, or a URL is invalid.
        """
        panel = panel_of(self._suite.policy.judges, config)
        if panel is None:
            return None
        judges, others, second = _panel_plans(self._suite, panel, self._environ)
        return PanelJudges(
            panel,
            [self._judge_of(plan) for plan in judges],
            [self._judge_of(plan) for plan in others],
            None if second is None else self._judge_of(second),
        )

    def graders(self, config: Metric) -> tuple[JudgeModel, ...]:
        """Return each model that may grade a metric, once: its judge, or judges, fallbacks and second judge of a panel.

        Raises:
            ModelConfigError: a key is missing, or a URL is invalid.
        """
        return tuple(dict.fromkeys(map(self._judge_of, plans_of(self._suite, config, self._environ))))

    def _judge_of(self, plan: ModelPlan) -> JudgeModel:
        key = (plan.account, plan.name, plan.api_version, json.dumps(dict(plan.settings), sort_keys=True, default=str))
        judge = self._models.get(key)
        if judge is None:
            judge = self._models[key] = JudgeModel(plan, self._clients)
        return judge


JudgedMetrics = Mapping[tuple[SourceMark, str], Metric]
"""Metrics by position in the suite and label, from `judged_metrics` and `library_metrics`."""


def unusable_judges(suite: Suite, metrics: JudgedMetrics, environ: Mapping[str, str]) -> list[Problem]:
    """Return a problem for each metric whose judge or library cannot be used in this environment."""
    return _problems(metrics, lambda config: missing_packages(config) or settings_problem(suite, config, environ))


def check_judges(
    suite: Suite, metrics: JudgedMetrics, environ: Mapping[str, str]
) -> tuple[list[Problem], list[Problem]]:
    """Check the judges of metrics without calling them.

    Returns:
        Two lists: the problems that do not depend on the environment; and, if there are no such problems, a problem for
        each missing package or key, at the first metric that needs it.
    """
    keyless = KeylessEnvironment(environ)
    wrong = _problems(metrics, lambda config: settings_problem(suite, config, keyless))
    if wrong:
        return wrong, []
    first: dict[str, Problem] = {}
    for problem in unusable_judges(suite, metrics, environ):
        first.setdefault(problem.message, problem)
    return [], [*first.values()]


def _problems(metrics: JudgedMetrics, problem_of: Callable[[Metric], str | None]) -> list[Problem]:
    found = ((mark, label, problem_of(config)) for (mark, label), config in sorted(metrics.items()))
    return [
        Problem(mark, label, f"{problem}; or set enabled: false to leave it out")
        for mark, label, problem in found
        if problem is not None
    ]


def missing_packages(config: Metric) -> str | None:
    """Return a message if packages that a metric needs are not installed; None if all are installed."""
    library = None if config.library is None else registry.libraries()[config.library]
    if library is None or _is_installed(library.imports):
        return None
    return f"needs packages that are not installed: {way_to_get(library.extra)}"


def settings_problem(suite: Suite, config: Metric, environ: Mapping[str, str]) -> str | None:
    """Return the reason why no judge can grade a metric with these settings; None if the settings are valid."""
    problem = config.settings_problem()
    if problem is not None or not config.needs_judge:
        return problem
    try:
        # The provider is checked first: if it is unsupported, a missing key does not matter.
        for plan in plans_of(suite, config, KeylessEnvironment(environ)):
            if (refused := config.judge_problem(plan.provider, plan.title)) is not None:
                return refused
        plans_of(suite, config, environ)
    except ModelConfigError as error:
        return str(error)
    return None


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def plans_of(suite: Suite, config: Metric, environ: Mapping[str, str]) -> tuple[ModelPlan, ...]:
    """Return the plans of all models that may grade a metric, including fallbacks. For a metric that compares
    embeddings, this is the plan of the embedding model.

    Raises:
        ModelConfigError: a key is missing, a URL is invalid, a panel could never give a verdict, the model under
            test is among the fallbacks, or the provider has no embedding models.
    """
    if config.embedding is not None:
        return (_embedding_plan(suite, config.embedding.model, environ).model,)
    panel = panel_of(suite.policy.judges, config)
    if panel is None:
        return (plan_of(suite, config.own_model, environ),)
    if panel.min_successful > len(panel.models):
        raise ModelConfigError(
            f"min_successful_judges is {panel.min_successful}, but {panel.origin} name {len(panel.models)} "
            f"judge{'s' if len(panel.models) > 1 else ''}: name more models, or lower min_successful_judges"
        )
    judges, fallbacks, second = _panel_plans(suite, panel, environ)
    if fallbacks:
        # The key of the suite's model may be missing if another target answers the cases.
        tested = judge_plan(suite.agent.model, KeylessEnvironment(environ), path="model")
        for plan in fallbacks:
            if _same_model(plan, tested):
                raise ModelConfigError(
                    f"fallback_models of {panel.origin} name the model under test ({plan.title}), which must not "
                    "be its own judge: name another model"
                )
    return (*judges, *fallbacks, *(() if second is None else (second,)))


def _embedding_plan(suite: Suite, name: str, environ: Mapping[str, str]) -> EmbeddingPlan:
    return resolve_embedding(suite.agent, environ, model=name, dimensions=None, path="embedding_model")


def _panel_plans(
    suite: Suite, panel: Panel, environ: Mapping[str, str]
) -> tuple[tuple[ModelPlan, ...], tuple[ModelPlan, ...], ModelPlan | None]:
    judges = tuple(
        plan_of(suite, model, environ, label=f"models[{at}] of {panel.origin}") for at, model in enumerate(panel.models)
    )
    fallbacks = tuple(
        judge_plan(model, environ, path=f"fallback_models[{at}] of {panel.origin}")
        for at, model in enumerate(panel.fallbacks)
    )
    second = None if panel.second is None else judge_plan(panel.second, environ, path=f"escalate.to of {panel.origin}")
    return judges, fallbacks, second


def _same_model(first: ModelPlan, second: ModelPlan) -> bool:
    return (first.provider, first.name, first.account.base_url.rstrip("/")) == (
        second.provider,
        second.name,
        second.account.base_url.rstrip("/"),
    )


def plan_of(
    suite: Suite, model: LLMProvider | None, environ: Mapping[str, str], *, label: str = "the metric's `model`"
) -> ModelPlan:
    """Return the plan of a metric's judge: the metric's own model, else `evaluations.model`, else the agent's model.

    Args:
        suite: the suite.
        model: the metric's own model; None if it has no model.
        environ: environment variables, with keys and URLs that model references omit.
        label: name of the metric's own model in messages.

    Raises:
        ModelConfigError: a key is missing, or a URL is invalid.
    """
    if model is not None:
        return judge_plan(model, environ, path=label)
    evaluations = suite.agent.evaluations
    if evaluations is not None and evaluations.model is not None:
        return judge_plan(evaluations.model, environ, path="evaluations.model")
    return judge_plan(suite.agent.model, environ, path="model")
