"""The questions of `init` at a terminal, each with a proposal that an empty answer takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from pydantic_core import PydanticCustomError

from holodeck_action.run.caller import Caller
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.targets import FORMS, parse_target
from holodeck_action.suite.yaml.variables import is_ci
from holodeck_action.text.plain import one_line

T = TypeVar("T")

_ATTEMPTS = 3
_MAX_LISTED = 20


class Person:
    """Asks questions at a terminal; in CI, without a terminal, and if the proposals are to be taken, asks none."""

    def __init__(self, caller: Caller, *, take_proposals: bool) -> None:
        self._caller = caller
        self.asks = not take_proposals and not is_ci(caller.environ) and caller.stdin.isatty()

    def choose(self, question: str, options: Sequence[tuple[T, str]], noun: str) -> T:
        """Let the person choose one of the options, each with the text that describes it; the first is the proposal.

        Raises:
            ConfigurationError: three answers in a row were not the number of an option.
        """
        listed = options[:_MAX_LISTED]
        if not self.asks or len(listed) == 1:
            return listed[0][0]
        self._write("".join(f"{number:4}  {one_line(text, 200)}\n" for number, (_, text) in enumerate(listed, start=1)))

        def parse(answer: str) -> tuple[T] | None:
            if answer.isdecimal() and 0 < int(answer) <= len(listed):
                return (listed[int(answer) - 1][0],)
            self._write(f"{one_line(answer, 200)}: must be a number from 1 to {len(listed)}\n")
            return None

        chosen = self._ask(f"{question} Its number; empty for 1: ", parse, noun)
        return listed[0][0] if chosen is None else chosen[0]

    def target(self) -> str | None:
        """Return the target that the person enters; None if no question is asked or the answer is empty.

        Raises:
            ConfigurationError: three answers in a row were not valid targets.
        """

        def parse(answer: str) -> str | None:
            try:
                parse_target(answer)
            except PydanticCustomError as error:
                self._write(f"{one_line(answer, 200)}: {error.message()}\n")
                return None
            return answer

        question = f"What answers the cases? {FORMS}; empty for the suite's own model: "
        return self._ask(question, parse, "target") if self.asks else None

    def _ask(self, question: str, parse: Callable[[str], T | None], noun: str) -> T | None:
        """Ask up to three times, and return the first valid answer; None if an answer is empty."""
        for _ in range(_ATTEMPTS):
            self._write(question)
            answer = self._caller.stdin.readline().strip()
            if not answer:
                return None
            value = parse(answer)
            if value is not None:
                return value
        raise ConfigurationError([f"no {noun} was named in {_ATTEMPTS} answers; nothing was written"])

    def _write(self, text: str) -> None:
        self._caller.stderr.write(text)
        self._caller.stderr.flush()
