"""Addresses of a suite to which a key would be sent unencrypted: this machine alone, unless the workflow says so."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from holodeck_action.suite.document import Document
from holodeck_action.suite.errors import Problem, field_path, printable
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.providers import ADDRESS_VARIABLES, KEY_VARIABLES, LLMProvider
from holodeck_action.suite.validation import Path as Where
from holodeck_action.suite.validation import position_of
from holodeck_action.suite.values import Case

_ADDRESSES = ("endpoint", "url")
_UNSET = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")


def plain_addresses(block: BaseModel, document: Document, environ: Mapping[str, str]) -> list[Problem]:
    """Find the `http://` addresses of other machines that a key or headers go with.

    Args:
        block: a validated file.
        document: the file as written.
        environ: keys and addresses that the file leaves out.
    """
    return [
        Problem(document.mark(*position_of(document, document.root, path)), field_path(path), _message(host))
        for path, host in _found(block, environ, ())
    ]


def plain_in_cases(cases: Sequence[Case], environ: Mapping[str, str]) -> list[Problem]:
    """Find such addresses in the metrics of cases, each at its metric."""
    own = {
        id(spec.config): spec for case in cases for turn in case.turns for spec in turn.metrics if not spec.inherited
    }
    return [
        Problem(spec.mark, field_path(path), _message(host))
        for spec in own.values()
        for path, host in _found(spec.config, environ, ())
    ]


def _message(host: str) -> str:
    return (
        f"a key would be sent unencrypted to {printable(host)} (allowed: https, this machine, or any with "
        "--allow-plain-http, which is an input of the action, too)"
    )


def _found(value: Any, environ: Mapping[str, str], path: Where) -> Iterator[tuple[Where, str]]:
    """Yield the place and the host of each such address."""
    if isinstance(value, LLMProvider):
        address = value.endpoint or environ.get(ADDRESS_VARIABLES.get(value.provider, ""), "")
        host = _plain_host(address)
        if host is not None and _has_key(value, environ):
            yield (*path, "endpoint"), host
    elif isinstance(value, BaseModel):
        for name in _ADDRESSES:
            host = _plain_host(getattr(value, name, None))
            if host is not None and (getattr(value, "headers", None) or _has_user(getattr(value, name))):
                yield (*path, name), host
        for name in type(value).model_fields:
            yield from _found(getattr(value, name), environ, (*path, name))
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _found(item, environ, (*path, index))
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _found(item, environ, (*path, str(key)))


def _has_key(model: LLMProvider, environ: Mapping[str, str]) -> bool:
    given = model.api_key.get_secret_value().strip() if isinstance(model.api_key, SecretStr) else ""
    # A variable that is not set is no key.
    own = bool(given) and _UNSET.search(given) is None
    return own or any(environ.get(name, "").strip() for name in KEY_VARIABLES[model.provider])


def _plain_host(address: object) -> str | None:
    """Return the host of an `http://` address of another machine, None for any other text."""
    if not isinstance(address, str) or not address.strip().lower().startswith("http:"):
        return None
    try:
        host = (urlsplit(address.strip()).hostname or "").rstrip(".")
    except ValueError:
        return None
    return host if host and not is_loopback(host) else None


def _has_user(address: str) -> bool:
    parts = urlsplit(address)
    return bool(parts.username or parts.password)
