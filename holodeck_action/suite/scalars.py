"""What an unquoted YAML scalar means: YAML 1.1 as PyYAML's safe loader reads it, except that dates stay text."""

from __future__ import annotations

from typing import Any

from yaml.resolver import Resolver

_TABLE: dict[str, list[tuple[str, Any]]] = Resolver.yaml_implicit_resolvers
_PREFIX = "tag:yaml.org,2002:"
_TRUE = frozenset(("yes", "true", "on"))

NULLS = frozenset(("", "~", "null", "Null", "NULL"))
MERGE = "<<"
SIGNS = frozenset((MERGE, "="))
"""What YAML 1.1 gives a meaning as a key; PyYAML's safe loader takes none of them unquoted as a value."""


def resolve(text: str) -> Any:
    """Read an unquoted scalar as bool, int, float, None or text.

    Raises:
        ValueError: it looks like a number that Python cannot hold, such as one of 5,000 digits.
    """
    candidates = _TABLE.get(text[:1])
    if candidates is None:
        return text
    for tag, pattern in candidates:
        if pattern.match(text):
            return construct(tag, text)
    return text


def construct(tag: str, text: str) -> Any:
    """Read a scalar as one of the standard types; types other than bool, int, float and null are text.

    Raises:
        ValueError: the text is not of that type.
    """
    kind = tag.removeprefix(_PREFIX)
    if kind == "null":
        return None
    if kind == "bool":
        return _boolean(text)
    if kind == "int":
        return _integer(text)
    if kind == "float":
        return _float(text)
    return text


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in _TRUE and word not in ("no", "false", "off"):
        raise ValueError("not a boolean")
    return word in _TRUE


def _sign(number: str) -> tuple[int, str]:
    return (-1 if number[:1] == "-" else 1), number[1:] if number[:1] in ("+", "-") else number


def _integer(text: str) -> int:
    sign, digits = _sign(text.replace("_", ""))
    if digits.startswith("0b"):
        return sign * int(digits[2:], 2)
    if digits.startswith("0x"):
        return sign * int(digits[2:], 16)
    if digits.startswith("0"):
        return sign * int(digits, 8)
    if ":" in digits:
        return sign * int(_sexagesimal([int(part) for part in digits.split(":")]))
    return sign * int(digits)


def _float(text: str) -> float:
    sign, digits = _sign(text.replace("_", "").lower())
    if digits in (".inf", ".nan"):
        return sign * float(digits[1:])
    if ":" in digits:
        return sign * float(_sexagesimal([float(part) for part in digits.split(":")]))
    return sign * float(digits)


def _sexagesimal(parts: list[Any]) -> Any:
    # As the safe loader computes it, term by term from the right, so that floats agree to the last bit.
    base = 1
    value: Any = 0
    for part in reversed(parts):
        value += part * base
        base *= 60
    return value
