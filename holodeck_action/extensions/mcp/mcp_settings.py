"""What an entry of type `mcp` asks for, read and checked before anything is started."""

from __future__ import annotations

import codecs
import json
import re
import shutil
import string
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from holodeck_action.llm.headers import check_header
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.model.tools import MCPTool, ToolModel
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.plain import excerpt
from holodeck_action.text.secrets import environment_secrets
from holodeck_action.workers.environment import job_environment
from holodeck_action.workers.permission import CodeAllowed

_INSTALL = {
    "npx": "install Node.js, in a workflow with actions/setup-node",
    "node": "install Node.js, in a workflow with actions/setup-node",
    "uvx": "install uv, in a workflow with astral-sh/setup-uv",
    "docker": "use a runner that has Docker",
}
_STDIO_FIELDS = ("command", "args", "env", "env_file", "encoding")
_HTTP_FIELDS = ("url", "headers", "timeout", "sse_read_timeout", "terminate_on_close")
_VARIABLE = re.compile(r"[^=\0]+")
_FRAMING = frozenset({"connection", "content-length", "content-type", "host", "transfer-encoding"})
_SECRET_HEADERS = frozenset({"authorization", "cookie", "proxy-authorization"})


@dataclass(frozen=True, slots=True)
class StdioServer:
    """A server that is a process.

    Attributes:
        command: program, as the suite names it, and its arguments; relative paths of files resolved.
        folder: the suite's folder, where it starts.
        environ: its whole environment; never shown.
        code: the permission to start it.
        encoding: of the lines on its standard streams; ASCII is written the same in it.
    """

    command: tuple[str, ...]
    folder: Path
    environ: Mapping[str, str] = field(repr=False)
    code: CodeAllowed
    encoding: str = "utf-8"


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """One entry, checked.

    Attributes:
        entry: the entry; its address, headers and variables are never shown.
        allowed: its tools that the model may see, None for all.
        process: how it is started; None where it is reached by address.
    """

    entry: MCPTool = field(repr=False)
    allowed: tuple[str, ...] | None
    process: StdioServer | None

    @property
    def place(self) -> str:
        """How messages name it."""
        return f"tools.{self.entry.name}"


def read_entry(entry: MCPTool, checkout: Checkout, environ: Mapping[str, str], code: CodeAllowed) -> ServerPlan:
    """Check an entry.

    Args:
        entry: of the suite, variables substituted.
        environ: the job's environment; a server's process sees it without the job's tokens.
        code: the permission to start it.

    Raises:
        TargetError: it cannot work; names the tool and the field.
    """
    allowed = _allowed(entry)
    if entry.transport == "stdio":
        return ServerPlan(entry, allowed, _stdio(entry, checkout, environ, code))
    if entry.transport == "websocket":
        raise TargetError(
            f"tools.{entry.name}.transport: websocket is no transport of the protocol's current versions; "
            "use http or sse with the server's https address"
        )
    _check_address(entry)
    return ServerPlan(entry, allowed, None)


def entry_notices(entry: MCPTool) -> Iterator[str]:
    """Yield what an entry says that has no effect, one sentence each."""
    idle: tuple[str, ...] = _HTTP_FIELDS if entry.transport == "stdio" else _STDIO_FIELDS
    if entry.transport == "sse":
        idle = (*idle, "terminate_on_close")
    named = [name for name in idle if name in entry.model_fields_set and getattr(entry, name) is not None]
    if entry.transport != "stdio" and set(entry.config or {}) - {"allowed_tools"}:
        named.append("config but allowed_tools")
    if named:
        yield f"tools.{entry.name}: {', '.join(named)} has no effect on transport {entry.transport}"
    if "load_prompts" in entry.model_fields_set and entry.load_prompts:
        yield f"tools.{entry.name}: load_prompts has no effect, as a model is given a server's tools alone"
    if not entry.load_tools:
        yield f"tools.{entry.name}: load_tools is false, so the server is not started"


def server_secrets(tools: Iterable[ToolModel], checkout: Checkout) -> frozenset[str]:
    """Return the secrets that MCP entries hold beside substituted variables, for redaction.

    Args:
        checkout: the suite's folder, and what may be read; an `env_file` that cannot be read holds none.

    Returns:
        Values of secret-named variables in `env` and `env_file`, of secret-named headers and of those that carry
        credentials, also without the scheme before them.
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


def _stdio(entry: MCPTool, checkout: Checkout, environ: Mapping[str, str], code: CodeAllowed) -> StdioServer:
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
            raise TargetError(f"{where}.env: {excerpt(name, 40)!r} or its value is none that a process can be given")
        variables[name] = value
    assert entry.command is not None
    arguments = [_resolved(argument, checkout.folder) for argument in entry.args or ()]
    if any("\0" in argument for argument in arguments):
        raise TargetError(f"{where}.args: holds a null character")
    program = shutil.which(entry.command, path=variables.get("PATH"))
    if program is None:
        raise TargetError(
            f"{where}.command: {entry.command} is not on the PATH; {_INSTALL[entry.command]}, or start the server "
            "yourself and give its address (transport: http)"
        )
    return StdioServer((program, *arguments), checkout.folder, variables, code, _encoding(entry))


def _resolved(argument: str, folder: Path) -> str:
    return str((folder / argument).resolve()) if argument.startswith(("./", "../")) else argument


def _encoding(entry: MCPTool) -> str:
    name = entry.encoding or "utf-8"
    try:
        codec = codecs.lookup(name)
        same = string.printable.encode(codec.name) == string.printable.encode("ascii")
    except (LookupError, UnicodeError, ValueError, TypeError):
        raise TargetError(f"tools.{entry.name}.encoding: {excerpt(name, 40)} is no text encoding; use utf-8") from None
    if not same:
        raise TargetError(
            f"tools.{entry.name}.encoding: in {excerpt(name, 40)} messages cannot be lines, which the protocol asks "
            "for; use utf-8"
        )
    return codec.name


def _read_env_file(checkout: Checkout, name: str) -> dict[str, str]:
    """Read `KEY=VALUE` lines; blank ones and those that begin with `#` are passed over, quotes belong to the value.

    Raises:
        ValueError: it cannot be read, or a line is none of these; a clause without the line, which may be secret.
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


def _check_address(entry: MCPTool) -> None:
    where = f"tools.{entry.name}"
    assert entry.url is not None
    parts = urlsplit(entry.url)
    try:
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise TargetError(f"{where}.url: transport {entry.transport} needs an address that starts with https://")
    for name, value in (entry.headers or {}).items():
        check_header(name, value, reserved=_FRAMING, where=f"{where}.headers: ")


def _allowed(entry: MCPTool) -> tuple[str, ...] | None:
    names = (entry.config or {}).get("allowed_tools")
    if names is None:
        return None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TargetError(f"tools.{entry.name}.config.allowed_tools: must be a list of the names of tools")
    return tuple(names)
