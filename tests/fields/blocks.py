"""What a block of a suite's files may and may not hold: documents with one field each, good and bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

AGENT = {
    "name": "a",
    "model": "{provider: ollama, name: m}",
    "instructions": "{inline: hi}",
    "evaluations": "{metrics: [{type: standard, metric: equality}]}",
    "test_cases": "[{name: x, input: a, ground_truth: b, expected_tools: []}]",
}
"""The lines of an agent.yaml that loads."""


@dataclass(frozen=True)
class Values:
    """Values of one field as written: those that are accepted, one that is not, and the sentence that says why.

    `beside` are fields the good and the bad document need too; None leaves a field of the block's base out.
    """

    good: tuple[str, ...]
    bad: str
    sentence: str
    beside: Mapping[str, str | None] = field(default_factory=dict)


@dataclass(frozen=True)
class Block:
    """A mapping of one model in one of the files.

    `place` holds `%s` where the mapping stands; without it the fields stand at the top of agent.yaml. `path` is the
    mapping's place as messages show it, `base` its required fields.
    """

    model: str
    fields: Mapping[str, Values]
    place: str = ""
    path: str = ""
    base: Mapping[str, str] = field(default_factory=dict)
    file: str = "agent.yaml"

    def files(self, name: str | None = None, value: str = "") -> dict[str, str]:
        """The files of a suite whose block has the value in the field of that name, or only its base."""
        entries: dict[str, str | None] = {**self.base}
        if name is not None:
            entries |= {**self.fields[name].beside, name: value}
        written = {key: text for key, text in entries.items() if text is not None}
        if not self.place:
            return {"agent.yaml": _lines({**AGENT, **written})}
        block = self.place % ("{" + ", ".join(f"{key}: {text}" for key, text in written.items()) + "}")
        if self.file != "agent.yaml":
            return {"agent.yaml": _lines(AGENT), self.file: f"{block}\n"}
        top, _, rest = block.partition(": ")
        return {"agent.yaml": _lines({**AGENT, top: rest})}

    def complaint(self, name: str) -> str:
        """What is said about the bad value of a field, with its position."""
        values = self.fields[name]
        before, _, _ = self.files(name, "<here>")[self.file].partition("<here>")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        place = f"{self.path}.{name}" if self.path else name
        return f"{self.file}:{line}:{column}: {place}: {values.sentence}"


def each(blocks: tuple[Block, ...]) -> Iterator[tuple[Block, str]]:
    """Every field of every block."""
    for block in blocks:
        for name in block.fields:
            yield block, name


def _lines(entries: Mapping[str, str]) -> str:
    return "".join(f"{key}: {text}\n" for key, text in entries.items())


def choice(*allowed: str, **beside: str | None) -> Values:
    """One of a few words."""
    return Values(allowed, "zzz", f'"zzz" is not allowed (allowed: {", ".join(allowed)})', beside)


def count(low: int, high: int | None = None, **beside: str | None) -> Values:
    """A whole number within bounds."""
    top = high if high is not None else low
    allowed = f"{low} or more" if high is None else f"{low} to {high}"
    return Values((str(top),), str(low - 1), f"{low - 1} is out of range (allowed: {allowed})", beside)


def number(low: float, high: float, bad: str, **beside: str | None) -> Values:
    """A number within bounds."""
    good = (str((low + high) / 2 + 0.01),)
    return Values(good, bad, f"{bad} is out of range (allowed: {low:g} to {high:g})", beside)


TEXT = Values(("some words",), "' '", "must not be blank")
ANY_TEXT = Values(("'; '",), "[a]", "must be text")
WRITTEN = Values(("7",), "[a]", "must be text")
FLAG = Values(("true", "false"), "maybe", "must be true or false")
UNIT = number(0, 1, "1.5")
ABOVE_ZERO = Values(("0.7",), "0", "0 is out of range (allowed: above 0)")
WHOLE_ABOVE_ZERO = Values(("7",), "0", "0 is out of range (allowed: above 0)")
NOT_NEGATIVE = Values(("0.7",), "-1", "-1 is out of range (allowed: 0 or more)")
TEXTS = Values(("[some words]",), "words", "must be a list")
MAPPING = Values(("{a: 1}",), "3", "must be a mapping")
EMPTY = Values(("{}",), "3", "must be a mapping")
MODEL = Values(("{provider: openai, name: gpt}",), "gpt", "must be a mapping")
