"""What an MCP server's tools are called by the model, and what their results are to it."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from holodeck_action.text.json_values import parse_json
from holodeck_action.text.plain import cut, excerpt, storable, storable_text
from holodeck_action.tools.base import ToolError, ToolResult
from holodeck_action.workers.failures import CallError
from holodeck_action.workers.plain import Plain

if TYPE_CHECKING:
    from mcp_types import CallToolResult, ContentBlock

_LONGEST_NAME = 64
"""Characters of a tool's name that all providers take."""
_FOREIGN = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8
_LONGEST_ERROR = 2000
"""Characters of an error that the model reads."""
_SHORTEST_ERROR = 500
"""Characters of an error that the record keeps in its sentence."""
_COUNTED = 4
"""Most by which the count of a value's content exceeds the size of its text (`0.5` counts as four bytes)."""


def visible_names(found: Sequence[tuple[str, str]], taken: Collection[str]) -> list[str]:
    """Return the names by which the model sees tools: letters, digits, `_` and `-`, at most 64, each once.

    Args:
        found: server and name of each tool.
        taken: names of the suite's other tools.

    Returns:
        A tool's own name where no other tool has it, else `mcp__<server>__<tool>`. Characters that providers do not
        take become `_`, and what is too long is cut and ends in a digest.
    """
    own = [_fitting(name) for _, name in found]
    times = Counter(own)
    used = {*taken, *(name for name in own if times[name] == 1)}
    names = []
    for (server, tool), name in zip(found, own, strict=True):
        if times[name] == 1 and name not in taken:
            names.append(name)
            continue
        full = f"mcp__{server}__{tool}"
        shown = _fitting(full)
        if shown in used:
            shown = _digested(shown, full)
        used.add(shown)
        names.append(shown)
    return names


def read_result(result: CallToolResult, place: str, max_bytes: int, *, is_retrieval: bool) -> ToolResult:
    """Read what a tool gave.

    Args:
        result: from the server.
        place: the tool's place in the suite, for messages.
        max_bytes: most bytes of the result's text to hand over.
        is_retrieval: whether chunks are told apart.

    Returns:
        The text blocks, joined by line ends, others as `[image/png, 1234 bytes]`; the structured result where there is
        no text. Of a retrieval tool, a list of chunks where there are several: the structured result's list, else the
        list that the only text is, else one for each block.

    Raises:
        ToolError: `raised`, the server says that the call failed; `bad_answer`, what it sent is no result.
    """
    parts = [_shown(block) for block in result.content]
    if result.is_error:
        text = storable_text("\n".join(parts)) or "the tool failed and did not say why"
        raise ToolError(f"{place}: {excerpt(text, _SHORTEST_ERROR)}", "raised", shown=cut(text, _LONGEST_ERROR))
    has_text = any(block.type == "text" for block in result.content)
    value: Any = "\n".join(parts)
    if is_retrieval:
        value = _chunks(parts, result.structured_content)
    elif not has_text and result.structured_content is not None:
        value = result.structured_content
    return _limited(value, place, max_bytes)


def _limited(value: Any, place: str, max_bytes: int) -> ToolResult:
    try:
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, allow_nan=False)
        data = storable_text(text).encode()
        if len(data) > max_bytes:
            return ToolResult(data[:max_bytes].decode("utf-8", "ignore"), len(data), True)
        plain = storable(Plain(_COUNTED * max_bytes + _COUNTED).convert(value, "the result"))
    except (CallError, ValueError, RecursionError):
        raise ToolError(f"{place}: the server sent what no result can be", "bad_answer") from None
    return ToolResult(plain, len(data))


def _chunks(parts: Sequence[str], structured: Any) -> Any:
    """Return the chunks of a result as `retrieval.chunks_of` reads them."""
    # Servers that must send an object put their list under one key.
    inner = next(iter(structured.values())) if isinstance(structured, dict) and len(structured) == 1 else structured
    if isinstance(inner, list):
        return inner
    if not parts:
        return structured
    if len(parts) == 1:
        return _parsed(parts[0])
    return [_chunk(part) for part in parts]


def _parsed(text: str) -> Any:
    """Return the list or the chunk that a text is, else the text."""
    if text.lstrip()[:1] == "[":
        try:
            value = parse_json(text)
        except ValueError:
            return text
        return value if isinstance(value, list) else text
    return _chunk(text)


def _chunk(text: str) -> Any:
    """Return the object with a `text` that a text is, else the text."""
    if text.lstrip()[:1] != "{":
        return text
    try:
        value = parse_json(text)
    except ValueError:
        return text
    return value if isinstance(value, dict) and isinstance(value.get("text"), str) else text


def _shown(block: ContentBlock) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return _placeholder(block.mime_type, block.data)
        case "resource_link":
            return f"[{excerpt(block.uri)}]"
        case "resource":
            resource = block.resource
            text = getattr(resource, "text", None)
            if isinstance(text, str):
                return text
            return _placeholder(resource.mime_type, getattr(resource, "blob", ""))


def _placeholder(kind: str | None, data: str) -> str:
    """Name what is no text by its type and its size, which Base64 tells (RFC 4648 §4)."""
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return f"[{excerpt(kind or 'application/octet-stream', 60)}, {size} bytes]"


def _fitting(name: str) -> str:
    clean = _FOREIGN.sub("_", name)
    return clean if 0 < len(clean) <= _LONGEST_NAME else _digested(clean, name)


def _digested(clean: str, name: str) -> str:
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
    return f"{clean[: _LONGEST_NAME - _DIGEST - 1]}_{digest}"
