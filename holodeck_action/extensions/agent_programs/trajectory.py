"""What one turn of a coding-agent program was, whatever the program calls it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import Struct

Event = Mapping[str, Any]
"""One line of a program's stream."""
How = Literal["completed", "cut_off", "agent", "infrastructure"]
"""How a turn ended: with an answer, at a token limit, by the agent's own fault, or by that of a service it needs."""


class Ended(Struct, frozen=True):
    """How a turn ended, and the reason as a clause after the program's name; empty if it was completed."""

    how: How
    reason: str = ""


COMPLETED = Ended("completed")
NO_END = Ended("infrastructure", "ended without its last event, so it is unknown whether it had finished")

OTHER_SESSION = Ended("infrastructure", "continued another session than that of the turn before")


def answered(text: str) -> Ended:
    """Return the end of a turn that nothing cut; without a text, it is an error."""
    return COMPLETED if text.strip() else Ended("infrastructure", "ended without a last message")


def ended_by_provider(reason: str | None, text: str) -> Ended:
    """Return the end of a turn whose stream does not report whether its last answer was cut.

    Args:
        reason: the provider's reason for the end of the answer, which only a file of the session has; None if it has
            none.
        text: the answer.
    """
    if reason is None:
        return Ended("infrastructure", "left no session file, which alone tells whether the answer was cut")
    if reason == "length":
        return cut_off()
    return answered(text) if reason == "stop" else Ended("agent", f"was stopped by the model's provider ({reason})")


def cut_off(said: str = "") -> Ended:
    """Return the end of a turn at a token limit; `said` is the program's own sentence about it."""
    return Ended("cut_off", f"stopped at its token limit{said and ': '}{said}")


def failed(said: str | None, otherwise: str) -> Ended:
    """Return the end of a turn with an error of a service; `otherwise` is its name if the program says nothing."""
    return Ended("infrastructure", f"ended with an error: {first_line(said or '') or otherwise}")


class Call(Struct, frozen=True):
    """A call of a tool.

    Attributes:
        name: the tool's name, as the program calls it.
        args: the arguments.
        result: text of the result; None if the stream does not report it.
        error: why the call failed; None if it did not, or if the stream does not report it.
        exit_code: exit code of a command; None if the stream does not report it.
        start_ms: when it was requested, in milliseconds since 1970; None if the stream does not report it.
        end_ms: when it had its result, likewise.
    """

    name: str
    args: Mapping[str, Any]
    result: str | None = None
    error: str | None = None
    exit_code: int | None = None
    start_ms: float | None = None
    end_ms: float | None = None


class Tokens(Struct, frozen=True):
    """Tokens of model calls.

    Attributes:
        prompt: tokens of all prompts, cached ones included.
        cached: the part of `prompt` that came from the provider's cache.
        completion: tokens of all answers, reasoning included.
        reasoning: the part of `completion` that is reasoning; None if the stream does not report it.
    """

    prompt: int
    cached: int
    completion: int
    reasoning: int | None = None

    def since(self, earlier: Tokens) -> Tokens:
        """Return the tokens that were added to an earlier total."""
        known = self.reasoning is not None and earlier.reasoning is not None
        return Tokens(
            self.prompt - earlier.prompt,
            self.cached - earlier.cached,
            self.completion - earlier.completion,
            (self.reasoning or 0) - (earlier.reasoning or 0) if known else None,
        )


def sum_tokens(
    usages: Iterable[Event], prompt: Sequence[str], cached: str, completion: Sequence[str], reasoning: str = ""
) -> Tokens | None:
    """Return the tokens of several reports; None if they have no tokens of prompts.

    Args:
        usages: the reports.
        prompt: dotted paths of the tokens of prompts, which are added up; so are those of `completion`.
        cached: the path of those that came from the cache.
        completion: the paths of the tokens of answers, with reasoning.
        reasoning: the path of those of reasoning; unknown if no report has it.
    """
    found = [*usages]

    def total(*paths: str) -> int:
        return sum(count_at(usage, *path.split(".")) for usage in found for path in paths)

    is_known = any(value_at(usage, *reasoning.split(".")) is not None for usage in found)
    tokens = Tokens(total(*prompt), total(cached), total(*completion), total(reasoning) if is_known else None)
    return tokens if tokens.prompt else None


class Trajectory(Struct, frozen=True):
    """One turn of a program.

    Attributes:
        text: the last message of the agent.
        ended: how the turn ended.
        calls: the calls of tools, in order; None if the program does not report them.
        session: id with which the next turn continues; None if the stream has none.
        model: name of the model; None if the stream does not report it.
        version: version of the program; None if the stream does not report it.
        tokens: tokens of the turn, or of the session so far if the adapter says so; None if the stream has none.
        cost_usd: cost as the program tells it, of the turn, or of the session so far if the adapter says so; None if it
            tells none.
        skills: names of the skills that the program offered to the model; None if the stream does not report it.
    """

    text: str
    ended: Ended
    calls: tuple[Call, ...] | None = None
    session: str | None = None
    model: str | None = None
    version: str | None = None
    tokens: Tokens | None = None
    cost_usd: float | None = None
    skills: tuple[str, ...] | None = None


def of_type(events: Iterable[Event], kind: str) -> list[Event]:
    """Return the events of a type."""
    return [event for event in events if event.get("type") == kind]


def last_of(events: Sequence[Event], kind: str) -> Event | None:
    """Return the last event if it has a type; None if the stream ended otherwise."""
    return events[-1] if events and events[-1].get("type") == kind else None


def mapping_at(event: Any, *path: str) -> Mapping[str, Any]:
    """Return the object at a path of keys; an empty one if there is none."""
    found = value_at(event, *path)
    return found if isinstance(found, Mapping) else {}


def value_at(event: Any, *path: str) -> Any:
    """Return the value at a path of keys; None if there is none."""
    for key in path:
        event = event.get(key) if isinstance(event, Mapping) else None
    return event


def text_at(event: Any, *path: str) -> str | None:
    """Return the text at a path of keys; None if there is none."""
    found = value_at(event, *path)
    return found if isinstance(found, str) else None


def count_at(event: Any, *path: str) -> int:
    """Return the count at a path of keys; 0 if there is none."""
    found = value_at(event, *path)
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else 0


_LATEST_MS = 2**53


def moment_at(event: Any, *path: str) -> float | None:
    """Return the time at a path of keys in milliseconds since 1970, from these or ISO 8601; None if there is none."""
    found = value_at(event, *path)
    if isinstance(found, str):
        try:
            return 1000 * datetime.fromisoformat(found).timestamp()
        except (ValueError, OverflowError, OSError):
            return None
    return float(count) if 0 < (count := count_at(event, *path)) < _LATEST_MS else None


def items_at(event: Any, *path: str) -> Iterable[Mapping[str, Any]]:
    """Return the objects in the list at a path of keys; nothing if there is none."""
    found = value_at(event, *path)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, Sequence) else []


def joined_text(content: Any) -> str:
    """Return a text, or the texts of the parts in a list."""
    if isinstance(content, str):
        return content
    return "\n".join(text_at(part, "text") or "" for part in items_at({"parts": content}, "parts"))


def first_line(text: str) -> str:
    """Return the first line of a text that is not blank."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")
