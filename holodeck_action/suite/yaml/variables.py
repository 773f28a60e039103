"""Environment variables: `${VAR}` in values, and .env files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.given_paths import GivenPath

_REFERENCE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ASSIGNMENT = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = re.compile(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:\#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Substitution(Struct, frozen=True):
    """A text after substitution.

    Attributes:
        text: the text with every known variable replaced.
        values: the non-empty values that were taken from the environment.
        unset: names of variables that are not set and have no default.
    """

    text: str
    values: tuple[str, ...]
    unset: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str]) -> Substitution:
    """Replace `${VAR}` and `${VAR:-default}` (used when unset or empty); `$${` stands for a literal `${`."""
    values: list[str] = []
    unset: list[str] = []

    def replace(match: re.Match[str]) -> str:
        name, default = match.group(1), match.group(2)
        if name is None:
            return "${"
        value = environ.get(name)
        if default is not None and not value:
            return default
        if value is None:
            unset.append(name)
            return match.group()
        if value:
            values.append(value)
        return value

    return Substitution(_REFERENCE.sub(replace, text), tuple(values), tuple(dict.fromkeys(unset)))


class Environment(Struct, frozen=True):
    """Variables a suite may use.

    Attributes:
        variables: the process's own and those of the .env file; the process's own win.
        notices: which file was read.
    """

    variables: Mapping[str, str]
    notices: tuple[str, ...] = ()


def is_ci(environ: Mapping[str, str]) -> bool:
    """Tell whether the program runs in CI: the variable `CI` is set to anything but `0` and `false`."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def environment_for(
    checkout: Checkout, environ: Mapping[str, str], *, env_file: GivenPath | None = None
) -> Environment:
    """Find the variables for the suite in a folder.

    Args:
        checkout: the folder of agent.yaml, and what may be read. Its `.env` is read only when neither CI is set nor a
            file is given.
        environ: the process's environment.
        env_file: file of `--env-file`, read anywhere, instead of `.env`.

    Raises:
        SuiteError: the file cannot be read, or a line of it is not an assignment.
    """
    name = ".env"
    if env_file is not None:
        name, checkout = str(env_file), Checkout.anywhere(env_file.start)
    elif is_ci(environ) or not (checkout.folder / name).is_file():
        return Environment(environ)
    found = _parse(checkout, name)
    count = len(found)
    notice = f"{name}: read {count} variable{'' if count == 1 else 's'}; variables that are already set win"
    return Environment({**found, **environ}, (notice,))


def _parse(checkout: Checkout, name: str) -> dict[str, str]:
    try:
        text = checkout.read(name).text()
    except (OSError, ForeignError) as error:
        reason = error.strerror if isinstance(error, OSError) else f"it {error}"
        raise SuiteError([Problem(None, "", f"{name}: cannot be read: {reason}")]) from None
    variables: dict[str, str] = {}
    problems: list[Problem] = []
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        match = _ASSIGNMENT.fullmatch(content)
        value = _value(match.group(2)) if match else None
        if match is None or value is None:
            # The line may hold a secret: it is not shown.
            message = "is not an assignment (allowed: KEY=VALUE, export KEY=VALUE, # comment)"
            problems.append(Problem(SourceMark(name, number, 1), "", message))
        else:
            variables[match.group(1)] = value
    if problems:
        raise SuiteError(problems)
    return variables


def _value(text: str) -> str | None:
    if text[:1] not in ("'", '"'):
        return re.sub(r"(^|\s)#.*", "", text).strip()
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    if match.group(2) is not None:
        return match.group(2)
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match.group(1))
