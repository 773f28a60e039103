"""`evaluations.optimizer` of agent.yaml, which only `optimize` uses."""

from typing import Annotated, Any, Literal

from pydantic import Field

from holodeck_action.suite.model.base import FormatModel, Integer, NonBlank, Number


class NumericAxis(FormatModel):
    """A setting whose value `optimize` may change."""

    path: NonBlank
    """Path of the setting in agent.yaml. Example: `model.temperature`."""
    type: Literal["float", "int", "categorical"]
    """The type of the setting's values. Example: `float`."""
    range: list[Any]
    """Bounds of the setting, `[low, high]`; with `categorical`, its values. Example: `[0.0, 1.0]`."""


class TextualAxis(FormatModel):
    """A text that HoloDeck's optimizer may rewrite. `optimize` refuses it."""

    path: NonBlank
    """Path of the text in agent.yaml. Example: `instructions.inline`."""
    max_chars: Annotated[Integer, Field(ge=1)] = 8000
    """Maximum length of the text, in characters. Checked, not used."""


class OptimizerAxes(FormatModel):
    """The settings and texts that may vary: `optimize` changes settings only."""

    numeric: tuple[NumericAxis, ...] = ()
    """Settings."""
    textual: tuple[TextualAxis, ...] = ()
    """Texts."""


class OptimizerPhase(FormatModel):
    """Bounds of one phase of an optimization."""

    max_trials: Annotated[Integer, Field(ge=1)] | None = None
    """Maximum number of values that are tried of a setting, at most 31; 10 when absent. Example: `20`."""
    patience: Annotated[Integer, Field(ge=1)] | None = None
    """Attempts without an improvement before the phase ends. Checked, not used. Example: `5`."""


class Optimizer(FormatModel):
    """The settings that `optimize` may change, and what it maximizes. No other command uses it."""

    loss: Annotated[dict[str, Annotated[Number, Field(gt=0.0)]], Field(min_length=1)]
    """The weight of each metric in the objective. Example: `{rouge: 1.0}`."""
    axes: OptimizerAxes | None = None
    """The settings and texts that may vary."""
    max_cycles: Annotated[Integer, Field(ge=1)] = 3
    """Maximum number of cycles through the settings."""
    numeric_phase: OptimizerPhase | None = None
    """Bounds of the phase that varies settings."""
    textual_phase: OptimizerPhase | None = None
    """Bounds of the phase that rewrites texts. Checked, not used."""
    min_delta: Annotated[Number, Field(ge=0.0)] = 0.01
    """The smallest gain for which a setting changes."""
    seed: Integer = 42
    """The seed of the choice of the cases that are held out."""
