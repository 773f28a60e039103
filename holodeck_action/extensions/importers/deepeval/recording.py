"""What a test file of DeepEval constructs and checks, as recorded by running it."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from holodeck_action.extensions.importers.source import Place, Source, UnfitError, json_problem
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import one_line
from holodeck_action.workers.bounded_programs import ProgramError, run_program
from holodeck_action.workers.permission import CodeAllowed

_MODULE = f"{__package__}.recorder"
_PACKAGES = Path(__file__).parents[__name__.count(".")]
_START = f"import sys; sys.path.insert(0, sys.argv[4]); from {_MODULE} import main; main()"
SECONDS = 60.0
"""Time limit of a test file, in seconds."""
_MOST_BYTES = 20_000_000


class Unknown(Struct, frozen=True):
    """A value that is known only when the application runs."""


UNKNOWN = Unknown()


class Member(Struct, frozen=True):
    """A member of one of DeepEval's enumerations."""

    name: str


class Constructed(Struct, frozen=True, eq=False):
    """An instance of a class of DeepEval.

    Attributes:
        kind: name of the class.
        own: whether the class is the file's own, or derived from DeepEval's there.
        place: where it was constructed.
        given: its arguments and attributes by name.
    """

    kind: str
    own: bool
    place: Place
    given: dict[str, Any]

    def known(self, name: str) -> Any:
        """Return an argument as JSON data; None if it was not given.

        Raises:
            UnfitError: the value is known only at run time, or is not JSON data.
        """
        return json_data(self.given.get(name), name)


class RecordedCheck(Struct, frozen=True):
    """A call that checks cases.

    Attributes:
        what: what the file calls, such as `assert_test`.
        function: name of the test; empty outside of tests.
        place: where it is called.
        note: why it cannot be imported; empty if it can.
        cases: a list of `Constructed`, None or `UNKNOWN`.
        metrics: as for `cases`.
    """

    what: str
    function: str
    place: Place
    note: str
    cases: Any
    metrics: Any


def record_file(source: Source, environ: Mapping[str, str], code: CodeAllowed, seconds: float = SECONDS) -> str:
    """Run a test file in its own process, without the job's secrets; return its recording as JSON.

    Args:
        source: the test file.
        environ: the job's environment, of which the process gets only the PATH.
        code: the permission to run it.
        seconds: time limit in seconds.

    Raises:
        ConfigurationError: the file is no Python, runs too long, or ends the process.
    """
    with tempfile.TemporaryDirectory() as name:
        written = Path(name, "recording.json")
        own = {"PATH": environ.get("PATH", os.defpath), "HOME": name, "TMPDIR": name}
        paths = map(os.fspath, (written, source.root, source.path, _PACKAGES))
        arguments = [sys.executable, "-I", "-S", "-B", "-c", _START, *paths]
        try:
            ended = run_program(arguments, own, code=code, timeout_s=seconds, max_bytes=_MOST_BYTES, folder=source.root)
            return read_file(written, _MOST_BYTES, follow_links=False).text()
        except ProgramError as error:
            raise ConfigurationError([f"{source.shown}: running it {error}; import a file that ends sooner"]) from None
        except (OSError, ForeignError):
            raise ConfigurationError(
                [f"{source.shown}: running it ended with code {ended.code} before its tests; run it by hand to see why"]
            ) from None


def read_recording(recorded: str, shown: str) -> tuple[Sequence[RecordedCheck], Sequence[Constructed]]:
    """Return the checks of a recording and everything that the file constructs, each in its order.

    Raises:
        ConfigurationError: the file with the path `shown` is no Python.
    """
    whole = parse_json(recorded)
    if "problem" in whole:
        line, reason = whole["problem"]
        why = one_line(reason, 200) or "it is nested too deeply, or too large"
        raise ConfigurationError([f"{shown}:{line}:1: is not Python: {why}"])
    made: list[Constructed] = []

    def decoded(value: Any) -> Any:
        if isinstance(value, list):
            return [decoded(item) for item in value]
        if not isinstance(value, dict):
            return value
        if "map" in value:
            return {key: decoded(item) for key, item in value["map"]}
        return made[value["object"]] if "object" in value else Member(value["member"]) if "member" in value else UNKNOWN

    # An instance is listed after those that it contains.
    for each in whole["objects"]:
        given = {key: decoded(value) for key, value in each["given"].items()}
        made.append(Constructed(**{**each, "place": Place(*each["place"]), "given": given}))
    checks = [
        RecordedCheck(
            **{**each, "place": Place(*each["place"])} | {name: decoded(each[name]) for name in ("cases", "metrics")}
        )
        for each in whole["checks"]
    ]
    return checks, made


def json_data(value: Any, name: str) -> Any:
    """Return a value if it is JSON data; the arguments of DeepEval's own small classes are mappings.

    Raises:
        UnfitError: it is, or contains, a value that is known only at run time, or that is not JSON data.
    """
    if isinstance(value, Unknown | Member):
        raise UnfitError(f"its {name} is known only at run time")
    if isinstance(value, Constructed):
        return {key: json_data(item, name) for key, item in value.given.items() if item is not None}
    if isinstance(value, list):
        return [json_data(item, name) for item in value]
    if isinstance(value, dict):
        return {key: json_data(item, name) for key, item in value.items()}
    problem = json_problem(value)
    if problem:
        raise UnfitError(f"its {name} {problem}")
    return value
