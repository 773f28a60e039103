"""The scenarios of `scenarios.yaml`: what happens in a job, and the right verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from msgspec import UNSET, Struct, UnsetType, convert, field
from msgspec.json import encode
from msgspec.structs import replace

FILE = Path(__file__).with_name("scenarios.yaml")
Peer: TypeAlias = Literal["promptfoo", "deepeval", "inspect"]
JUDGE = "judge"
"""Key of the judge's fault; `judge/CASE` is the fault for one case."""


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A value without unknown keys."""


class Call(_Strict, frozen=True):
    """A tool call."""

    name: str
    args: dict[str, str]


class Check(_Strict, frozen=True):
    """A check of a case's last answer; one of the fields before `weight` is set."""

    contains: str | None = None
    excludes: str | None = None
    equals: str | None = None
    matches: str | None = None
    number: float | None = None
    max_words: int | None = None
    latency_s: float | None = None
    json_schema: Literal["order"] | None = field(default=None, name="schema")
    rubric: str | None = None
    """Criteria for a judge of the last answer."""
    conversation: str | None = None
    """Criteria for a judge of the whole conversation."""
    same_as: str | None = None
    """Name of a case whose answer must be equal."""
    calls: Literal["exact"] | None = None
    """The case's tool calls, with arguments and in order, without others."""
    weight: float = 1
    fenced: bool = False
    """With `json_schema`: the JSON is in a code fence."""

    @property
    def kind(self) -> str:
        """The field that is set."""
        (kind,) = (name for name in self.__struct_fields__[:-2] if getattr(self, name) is not None)
        return kind


class Case(_Strict, frozen=True):
    """A question, or a conversation, with the answers of a sound agent."""

    name: str
    checks: tuple[Check, ...]
    ask: str = ""
    answer: str = ""
    turns: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    tools: tuple[Call, ...] = ()
    share: float | None = None
    """Share of the weighted checks that must hold; None: all."""

    @property
    def dialog(self) -> tuple[tuple[str, str], ...]:
        """Each message with the answer of a sound agent."""
        return tuple(zip(self.turns, self.answers, strict=True)) if self.turns else ((self.ask, self.answer),)


class Step(_Strict, frozen=True):
    """How the reply to one request differs from a sound one."""

    content: str | UnsetType | None = UNSET
    refusal: str | None = None
    finish: str = "stop"
    choices: Literal["none"] | None = None
    status: int = 200
    retry_after: int | None = None
    raw: str | None = None
    hang: bool = False
    cut: bool = False
    slow_s: float = 0
    tools: tuple[Call, ...] | UnsetType = UNSET
    loop: bool = False
    """The agent calls its first tool again and again."""
    verdict: Literal["beyond"] | None = None
    code: Literal["raise", "exit", "atexit", "rewrite"] | None = None
    """What the agent's own code does before it answers."""
    old: str = field(default="", name="from")
    new: str = field(default="", name="to")


Faults: TypeAlias = dict[str, tuple[Step | str, ...]]


class Team(_Strict, frozen=True):
    """The team's decisions."""

    trials: int = 1
    need: int | None = None
    """Trials that must pass; None: all."""
    pass_rate: float = 1
    errors_allowed: float = 0
    """Share of cases that may have no answer."""
    retries_after_error: int = 0
    turn_timeout_s: float = 30
    max_tool_calls: int | None = None
    regressions: int | None = None
    on_missing_base: Literal["fail", "warn"] = "fail"
    strict_exam: bool = False
    """The exam may not become easier than that of the base."""
    accepts_code: bool = False
    """Whether the team has read the change of the grader and accepts it in its workflow."""


class Base(_Strict, frozen=True):
    """The results to compare with."""

    source: Literal["file", "merge-base"]
    tamper: Literal["delete", "unrelated", "no-suite", "flip", "cut", "other-suite", "score", "indent"] | None = None
    case: str = ""
    """The case that is tampered with."""
    fault: Faults = {}


class Change(_Strict, frozen=True):
    """What the pull request does to the exam."""

    add: str = ""
    delete: str = ""
    pass_rate: float | None = None
    expect: dict[str, str] = {}
    empty: Literal["cases", "checks"] | None = None
    lenient: Literal["grader", "helper", "list"] | None = None
    """Which file of the code that grades passes everything: the grader, a module that it imports, or the list that it
    reads."""
    answers: Literal["recordings", "transcript"] | None = None
    """What the pull request commits, and lets answer in place of the model: edited recordings, or written answers."""
    tidy: bool = False
    """Whether the grader is written in another way and grades as before."""


class Scenario(_Strict, frozen=True):
    """A scenario; see the head of `scenarios.yaml` for the meaning of each key."""

    id: str
    kind: str = field(name="class")
    does: str
    right: Literal["green", "red", "error"]
    why: str
    favours: Peer | None = None
    feature: str = ""
    cases: tuple[Case, ...] = ()
    numbered: int = 0
    agent: Literal["model", "python", "tools"] = "model"
    judge: Literal["plain", "quotes"] = "plain"
    team: Team = Team()
    fault: Faults = {}
    base: Base | None = None
    change: Change = Change()

    def control(self) -> Scenario:
        """Return the scenario with a sound agent, sound servers and an unchanged repository."""
        base = self.base and replace(self.base, tamper=None, fault={})
        return replace(self, fault={}, change=Change(), base=base, judge="plain")

    def content(self) -> bytes:
        """Return what makes a job of it, without names and reasons."""
        return encode(replace(self, id="", kind="", does="", right="green", why="", favours=None, feature=""))


def numbered_case(name: str) -> Case:
    """Return the case `qN` of scenarios with numbered cases."""
    number = name.removeprefix("q")
    answer = f"Rule {number} is written down."
    return Case(name, (Check(equals=answer),), f"What is rule {number}?", answer)


def read_scenarios(file: Path = FILE) -> tuple[Scenario, ...]:
    """Read the scenarios.

    Raises:
        msgspec.ValidationError: an entry does not have the form of a scenario.
    """
    entries = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tuple(_completed(entry) for entry in entries)


def _completed(entry: Any) -> Scenario:
    """Return a scenario with its numbered cases written out."""
    found = convert(entry, Scenario)
    numbered = tuple(numbered_case(f"q{number + 1}") for number in range(found.numbered))
    return replace(found, cases=found.cases + numbered)
