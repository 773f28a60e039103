"""`probe` of a metric: an obviously right and an absurd answer, which a judge must tell apart before it grades."""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.model.base import FormatModel, NonBlank


class Exam(Struct, frozen=True):
    """The inputs of an obviously right and of an absurd answer, by the names of evaluation parameters.

    `options` replaces options of a metric that names a class of a library, such as the definitions of tools.
    """

    right: Mapping[str, Any]
    absurd: Mapping[str, Any]
    options: Mapping[str, Any] = {}

    def with_absurd(self, **inputs: Any) -> Self:
        """Return the exam with other inputs of the absurd answer."""
        return replace(self, absurd={**self.absurd, **inputs})


class ProbeAnswer(FormatModel):
    """`right` or `wrong` of `probe`: an answer and what the metric reads beside it."""

    input: NonBlank
    """The question. Example: `Opening hours`."""
    response: NonBlank
    """The answer. Example: `From 9 on.`."""
    ground_truth: NonBlank | None = None
    """The expected answer, if the metric reads it. Example: `From 9 on.`."""
    retrieval_context: tuple[NonBlank, ...] | None = None
    """The retrieved texts, if the metric reads them. Example: `[Open from 9 to 18.]`."""
    context: tuple[NonBlank, ...] | None = None
    """The texts of files, if the metric reads them. Example: `[Open from 9 to 18.]`."""

    @property
    def inputs(self) -> dict[str, Any]:
        """The given inputs by the names of evaluation parameters."""
        names = {name: "query" if name == "input" else name for name in type(self).model_fields}
        return {to: value for name, to in names.items() if (value := getattr(self, name)) is not None}


class Probe(FormatModel):
    """`probe` of a judged metric: two answers that each judge must tell apart before the first case."""

    right: ProbeAnswer
    """An answer that must get the better score. Example: `{input: Opening hours, response: From 9 on.}`."""
    wrong: ProbeAnswer
    """An answer that must get the worse score. Example: `{input: Opening hours, response: Bananas are yellow.}`."""

    @property
    def exam(self) -> Exam:
        """The two answers as inputs of an evaluator."""
        return Exam(self.right.inputs, self.wrong.inputs)

    def lacking(self, needs: frozenset[str]) -> Iterator[str]:
        """Yield the path of each input that a metric needs and an answer does not give."""
        for side in ("right", "wrong"):
            given = getattr(self, side).inputs
            yield from (f"{side}.{name}" for name in sorted(needs & set(ProbeAnswer.model_fields)) if name not in given)
