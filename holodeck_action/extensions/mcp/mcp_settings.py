"""Reads and checks tool entries of type `mcp` before any server is started."""

from __future__ import annotations

import codecs
import json
import os
import shutil
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from holodeck_action.llm.headers import check_header
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.seam.extras import way_to_get_program
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.tools import MCPTool, ToolModel
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.lazy_patterns import lazy_pattern
from holodeck_action.text.plain import excerpt
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed

_INSTALL = {
    "npx": "install Node.js, in a workflow with actions/setup-node",
    "node": "install Node.js, in a workflow with actions/setup-node",
    "uvx": "install uv, in a workflow with astral-sh/setup-uv",
    "docker": "use a runner that has Docker",
    "python": "install Python, in a workflow with actions/setup-python",
    "python3": "install Python, in a workflow with actions/setup-python",
}
_STDIO_FIELDS = ("command", "args", "env", "env_file", "encoding")
_HTTP_FIELDS = ("url", "headers", "timeout", "sse_read_timeout", "terminate_on_close")
_VARIABLE = lazy_pattern(r"[^=\0]+")
_RESERVED_HEADERS = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that runs as a local process.

    Attributes:
        command: the program as written in the suite, and its arguments with relative paths resolved.
        folder: working folder of the process: the suite's folder.
        environ: whole environment of the process, which must not be output.
        code: permission to start the process.
        encoding: encoding of the process's standard streams; a superset of ASCII.
    """

    command: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    code: CodeAllowed
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """A checked tool entry of type `mcp`.

    Attributes:
        entry: the tool entry, whose URL, headers and variables must not be output.
        allowed: names of the tools that the model may call; None if it may call all tools.
        process: how to start the server; None if the server is reached by URL.
    """

    entry: MCPTool = field(repr=False)
    allowed: tuple[str, ...] | None
    process: StdioServer | None

    @property
    def place(self) -> str:
        """Name of the entry in messages."""
        return f"tools.{self.entry.name}"


def read_entry(entry: MCPTool, checkout: Checkout, environ: Mapping[str, str], code: CodeAllowed) -> ServerPlan:
    """Check a tool entry of type `mcp`, and return how to reach its server.

    Args:
        entry: the entry, with variables substituted.
        environ: the job's environment, which a server's process gets without the job's tokens.
        code: permission to start the server's process.

    Raises:
        TargetError: the entry is invalid; the message names the tool and the field.
    """
    allowed = _allowed_tools(entry)
    if entry.transport == "stdio":
        return ServerPlan(entry, allowed, _stdio_server(entry, checkout, environ, code))
    if entry.transport == "websocket":
        raise TargetError(
            f"tools.{entry.name}.transport: websocket is not a transport of the protocol's current versions; "
            "use http or sse with the server's https address"
        )
    _check_url(entry)
    return ServerPlan(entry, allowed, None)


def entry_notices(entry: MCPTool) -> Iterator[str]:
    """Yield a notice of one sentence for each group of settings that have no effect."""
    idle: tuple[str, ...] = _HTTP_FIELDS if entry.transport == "stdio" else _STDIO_FIELDS
    if entry.transport == "sse":
        idle = (*idle, "terminate_on_close")
    named = [name for name in idle if name in entry.model_fields_set and getattr(entry, name) is not None]
    if entry.transport != "stdio" and set(entry.config or {}) - {"allowed_tools"}:
        named.append("config except allowed_tools")
    if named:
        yield f"tools.{entry.name}: {', '.join(named)} has no effect on transport {entry.transport}"
    if "load_prompts" in entry.model_fields_set and entry.load_prompts:
        yield f"tools.{entry.name}: load_prompts has no effect, because a model gets only the tools of a server"
    if not entry.load_tools:
        yield f"tools.{entry.name}: load_tools is false, so the server is not started"


def server_secrets(tools: Iterable[ToolModel], checkout: Checkout) -> frozenset[str]:
    """Return the secrets in tool entries of type `mcp`, for redaction, other than the values of substituted variables.

    Args:
        checkout: reads each `env_file`; a file that cannot be read adds no secrets.

    Returns:
        The secrets are the values of variables (`env`, `env_file`) and headers with secret names, and the values of
        headers with credentials, both with and without the scheme.
    """
    found: set[str] = set()
    for entry in tools:
        if not isinstance(entry, MCPTool):
            continue
        variables = dict(entry.env or {})
        if entry.env_file is not None:
            with suppress(ValueError):
                variables |= _read_env_file(checkout, entry.env_file)
        headers = entry.headers or {}
        found |= environment_secrets(variables) | environment_secrets(headers)
        for name, value in headers.items():
            if name.lower() in _SECRET_HEADERS:
                found |= {value, value.partition(" ")[2]}
    return frozenset(found)


def _stdio_server(entry: MCPTool, checkout: Checkout, environ: Mapping[str, str], code: CodeAllowed) -> StdioServer:
    where = f"tools.{entry.name}"
    variables = job_environment(environ)
    if entry.env_file is not None:
        try:
            variables |= _read_env_file(checkout, entry.env_file)
        except ValueError as error:
            raise TargetError(f"{where}.env_file: {excerpt(entry.env_file)} {error}") from None
    if entry.config is not None:
        variables["MCP_CONFIG"] = json.dumps(entry.config)
    for name, value in (entry.env or {}).items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise TargetError(f"{where}.env: {excerpt(name, 40)!r} or its value cannot be passed to a process")
        variables[name] = value
    assert entry.command is not None
    arguments = [_resolve_argument(argument, checkout.folder) for argument in entry.args or ()]
    if any("\0" in argument for argument in arguments):
        raise TargetError(f"{where}.args: holds a null character")
    program = shutil.which(entry.command, path=variables.get("PATH"))
    if program is None:
        install = way_to_get_program(entry.command) or _INSTALL[entry.command]
        raise TargetError(
            f"{where}.command: {entry.command} is not on the PATH; {install}, or start the server "
            "yourself and give its address (transport: http)"
        )
    return StdioServer((program, *arguments), checkout.folder, variables, code, _encoding(entry))


def _resolve_argument(argument: str, folder: Path) -> str:
    return os.path.realpath(folder / argument) if argument.startswith(("./", "../")) else argument


def _encoding(entry: MCPTool) -> str:
    name = entry.encoding or "utf-8"
    try:
        codec = codecs.lookup(name)
        same = string.printable.encode(codec.name) == string.printable.encode("ascii")
    except (LookupError, UnicodeError, ValueError, TypeError):
        raise TargetError(
            f"tools.{entry.name}.encoding: {excerpt(name, 40)} is not a text encoding; use utf-8"
        ) from None
    if not same:
        raise TargetError(
            f"tools.{entry.name}.encoding: in {excerpt(name, 40)} messages cannot be single lines, as the "
            "protocol requires; use utf-8"
        )
    return codec.name


def _read_env_file(checkout: Checkout, name: str) -> dict[str, str]:
    """Return the variables in a file of `KEY=VALUE` lines; quotes are part of the value, blank lines and comments (`#`)
    are skipped.

    Raises:
        ValueError: the file cannot be read, or a line is invalid; the message is a clause that does not quote the line,
            which may be secret.
    """
    try:
        text = checkout.read(name).text()
    except ForeignError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ValueError(f"cannot be read: {reason}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        name, equals, value = content.partition("=")
        if not equals or not _VARIABLE.fullmatch(name.strip()) or "\0" in value:
            raise ValueError(f"line {number} is not an assignment (allowed: KEY=VALUE, # comment)")
        found[name.strip()] = value.strip()
    return found


def _check_url(entry: MCPTool) -> None:
    where = f"tools.{entry.name}"
    assert entry.url is not None
    parts = urlsplit(entry.url)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise TargetError(
            f"{where}.url: is not a valid server URL for transport {entry.transport} (expected: https://HOST/PATH or "
            "http://HOST/PATH)"
        )
    for name, value in (entry.headers or {}).items():
        check_header(name, value, reserved=_RESERVED_HEADERS, prefix=f"{where}.headers: ")


def _allowed_tools(entry: MCPTool) -> tuple[str, ...] | None:
    names = (entry.config or {}).get("allowed_tools")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TargetError(f"tools.{entry.name}.config.allowed_tools: must be a list of the names of tools")
    return tuple(names)
