"""Test cases as they are written in agent.yaml or in a case file."""

from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from holodeck_action.seam.registry import simulation_type
from holodeck_action.suite.model.base import (
    ExtensionType,
    Flag,
    FormatModel,
    Integer,
    LazySection,
    MaybeText,
    NonBlank,
    Number,
    list_or_mapping,
)
from holodeck_action.suite.model.expected_tools import ExpectedToolsField, check_json
from holodeck_action.suite.model.metric_types import CaseMetric, CheckMetric
from holodeck_action.suite.model.simulation import Simulation, refuse_simulation
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    SimulatedUser = Simulation
else:
    # Few suites have simulated users.
    SimulatedUser = ExtensionType(simulation_type, Annotated[Any, AfterValidator(refuse_simulation)])


def _check_ground_truth(value: Any) -> Any:
    if isinstance(value, dict | list):
        raise PydanticCustomError("ground_truth_type", "must be text")
    return value


def _check_id(value: str) -> str:
    if not _ID.fullmatch(value):
        raise PydanticCustomError(
            "case_id",
            "must be at most {most} letters, digits and characters of . _ : / -, and start with a letter or digit",
            {"most": LONGEST_ID},
        )
    return value


LONGEST_ID = 80
"""Maximum characters of a case's id in a table."""
_ID = lazy_pattern(rf"[^\W_][\w.:/-]{{0,{LONGEST_ID - 1}}}")

Weight = Annotated[Number, Field(ge=0.001, le=1000.0)]
"""The weight of a case. The largest weight is a million times the smallest, so that no failure is lost in rounding."""
GroundTruth = Annotated[
    NonBlank,
    BeforeValidator(_check_ground_truth),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": r"\S"}, {"type": ["number", "boolean"]}]}),
]
"""An expected answer, kept as it is written in the file: `42`, `1.10` and `yes` are text."""
ANY, EVERY = "any", "all"
"""Whether the answer must match one of several expected answers, of which the best match counts, or all of them."""
FreeMapping = Annotated[dict[str, Any], AfterValidator(check_json)]
"""A free-form mapping of JSON values."""


class FileInput(FormatModel):
    """An entry of `files`. Exactly one of `path` and `url`."""

    path: MaybeText = None
    """Path, relative to the file that names it. Example: `docs/deal.pdf`."""
    url: MaybeText = None
    """Address, `http` or `https`. Example: `https://example.org/photo.png`."""
    type: Literal["image", "pdf", "text", "excel", "word", "powerpoint", "csv"]
    """The kind of file. Example: `pdf`."""
    description: str | None = None
    """Sent to the model with the file. Example: `The deal`."""
    pages: list[Annotated[Integer, Field(gt=0)]] | None = None
    """Pages of a PDF, in this order. The first page is 1. Example: `[1, 3]`."""
    sheet: str | None = None
    """Sheet of an Excel file; all sheets when absent. Example: `Q2`."""
    range: str | None = None
    """Cells of an Excel file; all cells when absent. Example: `A1:C10`."""
    cache: Flag | None = None
    """False: download the `url` in every run; true when absent."""

    @model_validator(mode="after")
    def _check_source(self) -> Self:
        if (self.path is None) == (self.url is None):
            raise PydanticCustomError("path", "give exactly one of path and url")
        return self


class EveryAnswer(FormatModel):
    """`ground_truths` as a mapping: the answer must match each of these texts; the worst match counts."""

    all: Annotated[list[GroundTruth], Field(min_length=1)]
    """The expected answers. Example: `[Leeds, tomorrow]`."""


SeveralAnswers = Annotated[
    Annotated[list[GroundTruth], Field(min_length=1), Tag("list")] | Annotated[EveryAnswer, Tag("mapping")],
    Discriminator(list_or_mapping),
]
"""Several expected answers: a list of which any must be matched, or `EveryAnswer`."""


class AskedEntry(FormatModel):
    """Base class of cases and turns: a question and what is expected of the answer."""

    input: NonBlank | None = None
    """The question to the agent. Example: `How long can I return a parcel?`."""
    ground_truth: GroundTruth | None = None
    """The expected answer, a text. Unquoted numbers and booleans keep their spelling. Example: `Within 30 days.`."""
    ground_truths: SeveralAnswers | None = None
    """Several expected answers, of which the best match counts, instead of `ground_truth`. Example: `[Leeds, in
    Leeds]`."""
    expected_tools: LazySection[ExpectedToolsField] | None = None
    """Expected tool calls. An empty list asserts that no tool is called. Example: `[find_order]`."""
    files: LazySection[Annotated[list[FileInput], Field(max_length=10)]] | None = None
    """At most 10 files that are sent with the input."""
    retrieval_context: list[str] | None = None
    """Texts that replace the texts the agent reports. Example: `[Returns are free.]`."""
    evaluations: list[CaseMetric] | None = None
    """Metrics that replace those of the suite; those of a turn also replace those of its case. An empty list counts as
    absent."""
    expect: list[CheckMetric] | None = None
    """Checks of the answer, in addition to the metrics: `{TYPE: VALUE}`, with other settings as further keys. A mapping
    of values by type is accepted, too. Example: `[{contains: Thursday}, {not_regex: sorry|cannot}]`."""

    @model_validator(mode="after")
    def _check_answers(self) -> Self:
        if self.ground_truth is not None and self.ground_truths is not None:
            raise PydanticCustomError("ground_truths", "has all expected answers: leave out ground_truth")
        return self

    @property
    def references(self) -> dict[str, list[str]] | None:
        """The expected answers if there are several, by whether any must be matched, or all."""
        several = self.ground_truths
        return None if several is None else {EVERY: several.all} if isinstance(several, EveryAnswer) else {ANY: several}

    @property
    def expected_answer(self) -> str | None:
        """The expected answer, or the text of several; None if there is none."""
        joint = "\nand: " if isinstance(self.ground_truths, EveryAnswer) else "\nor: "
        return self.ground_truth if self.references is None else joint.join(*self.references.values())


class TurnEntry(AskedEntry):
    """An entry of `turns`: one input of a conversation."""

    input: NonBlank
    """The question to the agent. Example: `Where is order A-17?`."""
    turn_config: FreeMapping | None = None
    """Free-form data for code graders and targets. Example: `{locale: en}`."""


OF_TURNS = tuple(name for name in AskedEntry.model_fields if name != "evaluations")
"""Keys of a case without turns that belong to the turns of a conversation."""


class CaseEntry(AskedEntry):
    """A test case, in `test_cases` or in the file of `test_cases_file`: `input`, `turns` or `simulate`."""

    name: NonBlank | None = None
    """A name for reports, ids and filters. Example: `return period`."""
    turns: LazySection[Annotated[list[TurnEntry], Field(min_length=1)]] | None = None
    """The inputs of a conversation, instead of `input`."""
    simulate: LazySection[SimulatedUser] | None = None
    """A user that a model plays, instead of `input`."""

    @model_validator(mode="after")
    def _check_form(self) -> Self:
        if self.simulate is not None:
            return self._check_simulated(self.simulate)
        if self.turns is None:
            if self.input is None:
                raise PydanticCustomError("case_form", "a case needs input, or turns or simulate for a conversation")
            return self
        others = [name for name in OF_TURNS if getattr(self, name) is not None]
        if others:
            raise PydanticCustomError(
                "case_form",
                "a case with turns cannot also have {keys}: move {keys} into the turns",
                {"keys": " and ".join(others)},
            )
        return self

    def _check_simulated(self, simulation: Simulation) -> Self:
        others = [name for name in ("input", "turns", "files") if getattr(self, name) is not None]
        if others:
            raise PydanticCustomError(
                "simulate",
                "cannot be combined with {keys}: the simulated user writes the inputs; keep simulate or {keys}",
                {"keys": " and ".join(others), "at_key": True},
            )
        if simulation.expected_answer is not None and super().expected_answer is not None:
            given = "ground_truth" if self.ground_truths is None else "ground_truths"
            raise PydanticCustomError(given, "is also given as expected_outcome of simulate; give only one")
        return self

    def with_answers(self, several: SeveralAnswers) -> Self:
        """Return the case with these expected answers; in a conversation they are those of the last turn."""
        if self.turns is None:
            return self.model_copy(update={"ground_truth": None, "ground_truths": several})
        last = self.turns[-1].model_copy(update={"ground_truth": None, "ground_truths": several})
        return self.model_copy(update={"turns": [*self.turns[:-1], last]})

    @property
    def expected_answer(self) -> str | None:
        """The expected answer of the case, or of the conversation with a simulated user; None if it has none."""
        found = super().expected_answer
        return found if found is not None or self.simulate is None else self.simulate.expected_answer


class TableCase(CaseEntry):
    """A row of a table of cases. It can also have fields that other cases get from the policy file."""

    id: Annotated[str, AfterValidator(_check_id)] | None = None
    """The id of the case, unique in the suite; it follows from the name when absent. Example: `Q-17`."""
    tags: list[NonBlank] | None = None
    """Tags for `--tag`, in addition to those of the policy file. Example: `[refunds, critical]`."""
    weight: Weight | None = None
    """Weight of the case in the pass rate and in means, unless the policy file sets it. Example: `2`."""
