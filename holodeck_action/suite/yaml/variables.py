"""Environment variables: `${VAR}` in values, and .env files."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import Struct

from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.errors import Problem, SourceMark, SuiteError
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.lazy_patterns import lazy_pattern

_REFERENCE = lazy_pattern(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_ASSIGNMENT = lazy_pattern(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)")
_QUOTED = lazy_pattern(r"""(?:"((?:[^"\\]|\\.)*)"|'([^']*)')\s*(?:\#.*)?""")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r"}


class Substitution(Struct, frozen=True):
    """A string after substitution.

    Attributes:
        text: the string with variables replaced by their values or defaults; variables in `unset` stay.
        values: the values of variables that were substituted, except empty ones.
        unset: names of variables that are not set and have no default.
    """

    text: str
    values: tuple[str, ...]
    unset: tuple[str, ...]


def substitute(text: str, environ: Mapping[str, str]) -> Substitution:
    """Replace `${VAR}` and `${VAR:-default}` (used when unset or empty); `$${` means a literal `${`."""
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


def referenced_names(text: str) -> frozenset[str]:
    """Return the names of the variables that a text refers to, with or without a default."""
    return frozenset(match[1] for match in _REFERENCE.finditer(text) if match[1] is not None)


class Environment(Struct, frozen=True):
    """The variables that a suite may use.

    Attributes:
        variables: variables of the process and of the .env file; the process takes precedence.
        notices: a notice about the .env file, if one was read.
    """

    variables: Mapping[str, str]
    notices: tuple[str, ...] = ()


def is_ci(environ: Mapping[str, str]) -> bool:
    """Return whether the program runs in CI: the variable `CI` is set to a value other than `0` and `false`."""
    return environ.get("CI", "").lower() not in ("", "0", "false")


def load_environment(
    checkout: Checkout, environ: Mapping[str, str], *, env_file: GivenPath | None = None
) -> Environment:
    """Return the variables that the suite in a folder may use.

    Args:
        checkout: the folder of agent.yaml, and the paths that may be read. Its `.env` is read only if `CI` is not set
            and `env_file` is None.
        environ: the process's environment.
        env_file: value of `--env-file`: a file, in any folder, to read instead of `.env`.

    Raises:
        SuiteError: the file cannot be read, or one of its lines is not an assignment.
    """
    name = ".env"
    if env_file is not None:
        name, checkout = str(env_file), Checkout.unbounded(env_file.start)
    elif is_ci(environ) or not (checkout.folder / name).is_file():
        return Environment(environ)
    found = _parse_env_file(checkout, name)
    count = len(found)
    notice = f"{name}: read {count} variable{'' if count == 1 else 's'}; variables that are already set take precedence"
    return Environment({**found, **environ}, (notice,))


def _parse_env_file(checkout: Checkout, name: str) -> dict[str, str]:
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
        value = _parse_value(match.group(2)) if match else None
        if match is None or value is None:
            # The line is not shown, since it may hold a secret.
            message = "is not an assignment (allowed: KEY=VALUE, export KEY=VALUE, # comment)"
            problems.append(Problem(SourceMark(name, number, 1), "", message))
        else:
            variables[match.group(1)] = value
    if problems:
        raise SuiteError(problems)
    return variables


def _parse_value(text: str) -> str | None:
    if text[:1] not in ("'", '"'):
        return re.sub(r"(^|\s)#.*", "", text).strip()
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    if match.group(2) is not None:
        return match.group(2)
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), match.group(1))
