"""`judges`: panels of judges, in the policy file and on a metric."""

from typing import Annotated, Literal

from pydantic import Field

from holodeck_action.suite.model.base import FormatModel, Integer, NonBlank
from holodeck_action.suite.model.providers import LLMProvider

Consistency = Literal["report", "require"]
"""Whether contradictions of judges are only reported, or are errors."""
ProbeWhen = Literal["auto", "always", "never"]
"""When judges are probed."""
Aggregation = Literal["majority_vote", "median", "mean", "min", "max"]

_AtLeastOne = Annotated[Integer, Field(ge=1)]


class Escalation(FormatModel):
    """`escalate` of `judges`: a second judge, for answers whose first verdict is in doubt."""

    to: LLMProvider
    """The judge that decides when the first one fails the answer, passes it within 0.1 of the threshold, or gives no
    verdict. Example: `{provider: openai, name: gpt-6.1-sol}`."""


class Judges(FormatModel):
    """`judges` of a metric: a panel. Its settings replace those of the policy file, one by one."""

    models: tuple[LLMProvider, ...] = ()
    """The judges. The same model may occur several times. Empty: one model grades, without a panel. Example:
    `[{provider: openai, name: gpt-6.1-sol}]`."""
    aggregation: Aggregation = "majority_vote"
    """How several verdicts become one. A tied vote fails."""
    min_successful_judges: _AtLeastOne = 1
    """With fewer verdicts the evaluation is an error."""
    max_concurrent_judges: _AtLeastOne | None = None
    """Judges called at the same time for one answer; all when absent. Example: `2`."""
    fallback_models: tuple[LLMProvider, ...] = ()
    """Called one after the other when a judge gives no verdict. Example: `[{provider: openai, name: gpt-6-luna}]`."""
    escalate: Escalation | None = None
    """A second judge for answers in doubt. Example: `{to: {provider: openai, name: gpt-6.1-sol}}`."""


class SuiteJudges(Judges):
    """`judges` of the policy file: the panel of all judged metrics, the judge cards, and what counts for all judges."""

    cards: tuple[NonBlank, ...] = ()
    """Judge cards from `calibrate`, one per metric: paths inside the suite's folder. Example:
    `[cards/faithfulness.json]`."""
    consistent: Consistency = "report"
    """`require`: an evaluation is an error if its judge gave the opposite verdict on an equal prompt in another trial.
    `report`: reports only count such verdicts."""
    probe: ProbeWhen = "auto"
    """When each judge must tell a right from an absurd answer before the first case. `auto`: unless the last run of the
    base branch has seen it pass. `never`: not at all. Example: `always`."""
