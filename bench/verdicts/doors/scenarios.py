"""The scenarios of the files beside this module: a project, its commands, and the verdict that is right for it.

A file has one door:

door       Name of the door.
parts      Anchors of YAML, which scenarios repeat.
files      Files of every scenario, unless the scenario has another file of the name.
serve      Rules of the server, after those of the scenario.
scenarios  The list.

A scenario has an `id`, what it `does`, the `right` verdict with the reason (`why`), `files`, and what is `run`:

green  The last command must end with 0.
red    It must end with 1: the agent, or what was compared, is not good enough.
error  It must end with 2, 3 or 4: it is unknown whether the agent is good enough, or the set-up is wrong. No sentence
       may say that the agent must be repaired, unless the agent itself broke (`at_fault: agent`).

What must not pass has a `sound` variant, which replaces files and rules by name and must be green.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from msgspec import UNSET, Struct, UnsetType, convert
from msgspec.structs import replace

FOLDER = Path(__file__).parent
Right: TypeAlias = Literal["green", "red", "error"]
CODES: Mapping[Right, frozenset[int]] = {
    "green": frozenset({0}),
    "red": frozenset({1}),
    "error": frozenset({2, 3, 4}),
}


class _Strict(Struct, frozen=True, forbid_unknown_fields=True):
    """A value without unknown keys."""


class Reply(_Strict, frozen=True):
    """The reply to one request."""

    say: Any = ""
    """The answer of an agent or model, in the form of the path; a value that is no text becomes its JSON."""
    finish: str = "stop"
    refusal: str | None = None
    call: str = ""
    """Name of the tool that the model calls."""
    vectors: dict[str, tuple[float, ...]] = {}
    """Embeddings by text."""
    body: Any | UnsetType = UNSET
    """The whole body as JSON."""
    text: str | None = None
    """The whole body as it is."""
    status: int = 200
    headers: dict[str, str] = {}
    wait_s: float = 0
    cut: bool = False
    """The connection ends in the middle of the body."""
    drop: bool = False
    """The connection ends without a byte."""


class Rule(_Strict, frozen=True):
    """Replies to the requests that match, one after the other; the last one stays."""

    replies: tuple[Reply | str, ...]
    path: str = ""
    """End of the path."""
    model: str = ""
    has: str = ""
    """Text in the JSON of the request."""
    step: int = 0
    """The command during which the rule holds, counted from 1; 0: all."""


class Step(_Strict, frozen=True):
    """A command of the program, or of a shell, after files were written."""

    run: str = ""
    shell: str = ""
    files: dict[str, Any] = {}


class Variant(_Strict, frozen=True):
    """What the sound variant has in place of the scenario's own; files by name, others as a whole."""

    files: dict[str, Any] = {}
    serve: tuple[Rule, ...] | None = None
    run: str | tuple[Step | str, ...] | None = None


class Scenario(_Strict, frozen=True):
    """A scenario; see this module's head."""

    id: str
    does: str
    right: Right
    why: str
    run: str | tuple[Step | str, ...]
    files: dict[str, Any] = {}
    serve: tuple[Rule, ...] = ()
    says: tuple[str, ...] = ()
    """Phrases that the output must have, in upper or lower case."""
    never_says: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    """Files whose text counts as output."""
    codes: frozenset[int] = frozenset()
    """The right exit codes, unless they are those of `right`."""
    at_fault: Literal["agent"] | None = None
    sound: Variant | None = None
    alone: str = ""
    """Why there is no sound variant."""
    door: str = ""

    @property
    def steps(self) -> tuple[Step, ...]:
        """The commands in their order."""
        listed = (self.run,) if isinstance(self.run, str) else self.run
        return tuple(Step(run=each) if isinstance(each, str) else each for each in listed)

    @property
    def right_codes(self) -> frozenset[int]:
        """The exit codes that are right for the last command."""
        return self.codes or CODES[self.right]

    def control(self) -> Scenario | None:
        """Return the sound variant."""
        if self.sound is None:
            return None
        sound = self.sound
        return replace(
            self,
            right="green",
            files={**self.files, **sound.files},
            serve=self.serve if sound.serve is None else sound.serve,
            run=self.run if sound.run is None else sound.run,
            says=(),
            never_says=(),
            codes=frozenset(),
            sound=None,
        )


class Door(_Strict, frozen=True):
    """A file of scenarios."""

    door: str
    scenarios: tuple[Scenario, ...]
    parts: Any = None
    files: dict[str, Any] = {}
    serve: tuple[Rule, ...] = ()

    def complete(self) -> Iterator[Scenario]:
        """Yield the scenarios with the files and rules that all have."""
        for each in self.scenarios:
            sound = each.sound
            if sound is not None and sound.serve is not None:
                sound = replace(sound, serve=(*sound.serve, *self.serve))
            files = {**self.files, **each.files}
            yield replace(each, door=self.door, files=files, serve=(*each.serve, *self.serve), sound=sound)


def read_door(file: Path) -> tuple[Scenario, ...]:
    """Read the scenarios of a file.

    Raises:
        msgspec.ValidationError: the file does not have the form of a door.
    """
    content = yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)
    return tuple(convert(content, Door).complete())


def read_doors(folder: Path = FOLDER) -> tuple[Scenario, ...]:
    """Read the scenarios of all files of a folder, in the order of their names."""
    return tuple(each for file in sorted(folder.glob("*.yaml")) for each in read_door(file))
