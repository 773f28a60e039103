"""The common code of tools that search documents: planned calls, embedding, definitions for the model, and results."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from holodeck_action.extensions.knowledge.records import RECORD_SUFFIXES
from holodeck_action.extensions.knowledge.source_files import SourceFile, needs_reader, source_files, unread_files
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.embeddings import Embedder, resolve_embedding
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.suite.errors import Problem, quoted
from holodeck_action.suite.model.tools import Database, HierarchicalDocumentTool, VectorstoreTool
from holodeck_action.suite.values import Suite
from holodeck_action.targets.documents.kinds import document_kind
from holodeck_action.targets.documents.reader import DocumentReader, missing_packages
from holodeck_action.targets.own_model.toolbox import PlannedCalls, ToolError, Toolkit, ToolResult
from holodeck_action.text.foreign import Redact

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")
SearchEntry = VectorstoreTool | HierarchicalDocumentTool

CONTEXTS = "contexts of chunks"
EMBEDDINGS = "embeddings of documents"
QUERIES = "embedding of the query"
RERANKING = "reranking"


class DocumentTools(Toolkit):
    """The search tools of one type in a suite, with the reader and the embedder for their documents."""

    calls_models = True

    def __init__(self, suite: Suite, environ: Mapping[str, str], redact: Redact) -> None:
        """Find ambiguous file names and create the reader; no document is read.

        Args:
            suite: the suite.
            environ: the job's environment.
            redact: removes secrets from error messages about documents.

        Raises:
            TargetError: a source does not exist or contains nothing.
        """
        self._suite = suite
        self._ambiguous = ambiguous_names(suite)
        self._embedder: Embedder | None = None
        self._new_reader = partial(DocumentReader, timeout_s=_file_timeout_s(suite), environ=environ, redact=redact)
        self._reader = self._new_reader()

    @abstractmethod
    async def plan_calls(self) -> Sequence[PlannedCalls]:
        """Read the documents, keep them for `open`, and return the model calls that the tools will make.

        Raises:
            AgentError: `tool_unavailable`: a file cannot be read.
        """

    async def close(self) -> None:
        """Stop the worker processes that read documents."""
        await self._reader.close()

    async def _read_and_close(self, read: Callable[[DocumentReader], Awaitable[T]]) -> T:
        """Call `read` with a new document reader, and close the reader afterwards.

        Model calls are planned in a separate event loop, which ends before the run's event loop starts.
        """
        reader = self._new_reader()
        try:
            return await read(reader)
        finally:
            await reader.close()

    async def _embed(self, names: Iterable[str], texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the embeddings of the texts of several tools, computed in one batch in the suite's order.

        Due to the fixed order, requests do not depend on which file was read first, and can be replayed.

        Raises:
            AgentError: `tool_unavailable`: the model call failed.
        """
        assert self._embedder is not None
        try:
            return await self._embedder.embed(texts)
        except ModelCallError as error:
            tools = ", ".join(f"tools.{name}" for name in names)
            context = {**error.context, "cause": error.code}
            message = f"the documents of {tools} cannot be embedded: {error.message}"
            raise AgentError(message, "tool_unavailable", context) from error


def tool_error(suite: Suite, tool: str, field: str, message: str) -> TargetError:
    """Return an error about a field of a tool, with the tool's position in the suite's file if it is known."""
    mark = suite.tool_marks.get(tool)
    problem = Problem(mark, f"tools.{tool}.{field}", message)
    return TargetError(str(problem), () if mark is None else (problem,))


def suite_embedder(suite: Suite, environ: Mapping[str, str], sender: RequestSender) -> Embedder:
    """Return the embedder that all search tools of a suite share; no model is called yet.

    Raises:
        TargetError: tools name different embedding models.
        ModelConfigError: the model has no API key.
    """
    name, model = _common_value(suite, "embedding_model")
    sized, dimensions = _common_value(suite, "embedding_dimensions")
    where = f"tools.{sized or name or '*'}"
    return Embedder(resolve_embedding(suite.agent, environ, model=model, dimensions=dimensions, path=where), sender)


def _common_value(suite: Suite, field: str) -> tuple[str | None, Any]:
    """Return the name of the first tool that sets a field, and the field's value; two Nones if no tool sets it.

    Raises:
        TargetError: tools set the field to different values.
    """
    first: tuple[str | None, Any] = (None, None)
    for tool in suite.agent.tools or ():
        if not isinstance(tool, SearchEntry):
            continue
        value = getattr(tool, field, None)
        if value is None:
            continue
        if first[1] is None:
            first = tool.name, value
        elif value != first[1]:
            message = (
                f"{quoted(str(value))} differs from {quoted(str(first[1]))} of tools.{first[0]}: "
                "all tools that search documents share one embedding model"
            )
            raise tool_error(suite, tool.name, field, message)
    return first


FILE_TIMEOUT_S = 30.0
"""Time limit in seconds for reading one file, unless `execution.file_timeout` is set."""

_QUERY_ERRORS = ("bad_request", "context_length", "content_filter")
"""Codes of errors that the query causes. The model receives them; other failures of a model call end the turn."""

_MAX_NAME = 64
"""Most characters that all providers accept in a tool's name."""
_MOST_LISTED = 5
_NO_RESULTS = "No results found: no document is close enough to the query."


def definition_of(entry: SearchEntry) -> ToolDefinition:
    """Return the definition of a tool for the model."""
    return ToolDefinition(
        f"{entry.name}_search",
        f"Search {entry.name}: {entry.description}",
        {
            "type": "object",
            "properties": {"query": {"type": "string", "description": "What to look for, in plain words"}},
            "required": ["query"],
            "additionalProperties": False,
        },
    )


def check_name(entry: SearchEntry, suite: Suite) -> None:
    """Check the name under which a model calls the tool, `<name>_search`.

    Raises:
        TargetError: the name is too long, or another tool has it.
    """
    name = f"{entry.name}_search"
    if len(name) > _MAX_NAME:
        message = f"{quoted(name)}, the name for the model, is longer than {_MAX_NAME} characters; shorten it"
        raise tool_error(suite, entry.name, "name", message)
    if any(tool.type == "function" and tool.name == name for tool in suite.agent.tools or ()):
        message = f"the model calls it {quoted(name)}, which is the name of another tool; rename one"
        raise tool_error(suite, entry.name, "name", message)


def searchable_files(entry: SearchEntry, suite: Suite) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    """Return the files of a tool's source that it can search, and the names of the other files.

    Raises:
        TargetError: the source does not exist, contains nothing to search, or needs a package that is not installed.
    """
    files, others = _split_files(entry, suite)
    if not files:
        message = (
            f"{quoted(entry.source)} holds no records (JSON, JSON Lines, CSV or TSV); "
            "remove vector_field to search it as text"
        )
        raise tool_error(suite, entry.name, "source", message)
    for file in files:
        if missing := missing_packages(document_kind(file.path)) if needs_reader(file) else None:
            raise tool_error(suite, entry.name, "source", f"{file.name}: {missing}")
    return files, others


def document_names(entry: SearchEntry, suite: Suite) -> tuple[str, ...]:
    """Return the names of the PDF and Office files that a tool reads; empty if its source is invalid."""
    try:
        files, _ = _split_files(entry, suite)
    except TargetError:
        return ()
    return tuple(file.name for file in files if needs_reader(file))


def _split_files(entry: SearchEntry, suite: Suite) -> tuple[tuple[SourceFile, ...], tuple[str, ...]]:
    try:
        files = source_files(entry.source, suite.checkout, tool=entry.name)
        others = unread_files(entry.source, suite.checkout, tool=entry.name)
    except TargetError as error:
        mark = suite.tool_marks.get(entry.name)
        raise TargetError(str(error), () if mark is None else (Problem(mark, "", str(error)),)) from None
    if isinstance(entry, HierarchicalDocumentTool) or entry.vector_field is None:
        return files, others
    left = (file.name for file in files if file.suffix not in RECORD_SUFFIXES)
    return tuple(file for file in files if file.suffix in RECORD_SUFFIXES), tuple(sorted((*others, *left)))


def ambiguous_names(suite: Suite) -> frozenset[str]:
    """Return the file names that would give different chunks the same id in two tools.

    These are names of different files, or of a file that two tools split differently. A source that is a single file of
    records is ignored, since its records have their own ids.

    Raises:
        TargetError: a source does not exist or contains nothing.
    """
    entries = [tool for tool in suite.agent.tools or () if isinstance(tool, SearchEntry)]
    meant: dict[str, set[Hashable]] = defaultdict(set)
    for entry in entries if len(entries) > 1 else ():
        cut = _chunking_key(entry)
        files, _ = _split_files(entry, suite)
        if not has_own_ids(entry, suite):
            for file in files:
                meant[file.name].add((file.path.resolve(), cut))
    return frozenset(name for name, places in meant.items() if len(places) > 1)


def has_own_ids(entry: SearchEntry, suite: Suite) -> bool:
    """Return whether a tool's source is a single file of records, so the ids of records are the ids of chunks."""
    records = isinstance(entry, VectorstoreTool) and entry.vector_field is not None
    return records and (suite.folder / entry.source).is_file()


def prefixed_id(entry: SearchEntry, chunk_id: str) -> str:
    """Return a chunk's id with the tool's name before it, for an id that another tool also uses."""
    return f"{entry.name}:{chunk_id}"


def _chunking_key(entry: SearchEntry) -> Hashable:
    """Return the settings that determine how a tool splits a file into chunks."""
    if isinstance(entry, HierarchicalDocumentTool):
        size = (entry.max_chunk_tokens, entry.chunk_overlap, entry.max_subsection_depth)
        return (entry.chunking_strategy, entry.document_domain, *size)
    if entry.vector_field is not None:
        return (entry.id_field, entry.record_path)
    return (entry.chunk_size, entry.chunk_overlap)


def _database_of(entry: SearchEntry, suite: Suite) -> str | None:
    """Return the name of the database in a tool's settings, for a notice; None if the tool searches in memory."""
    known = suite.project.vectorstores or {}
    named = entry.database
    if named is None:
        return None
    if isinstance(named, Database):
        return None if named.provider == "in-memory" else named.provider
    if named in known:
        return None if known[named].provider == "in-memory" else quoted(named)
    # If databases are configured, `suite.notices` already reports that the vectorstore's is not among them.
    reported = bool(known) and isinstance(entry, VectorstoreTool)
    return None if reported or named == "in-memory" else quoted(named)


def tool_notices(entry: SearchEntry, suite: Suite, other_files: Sequence[str]) -> Iterator[str]:
    """Yield notices about a database that a tool does not use, and about files that it does not read.

    Args:
        other_files: names of the files that the tool does not read.
    """
    database = _database_of(entry, suite)
    if database is not None:
        yield f"tools.{entry.name}: the database {database} is not used: the source is embedded and searched in memory"
    if other_files:
        more = f" and {len(other_files) - _MOST_LISTED} more" if len(other_files) > _MOST_LISTED else ""
        yield f"tools.{entry.name}: not searched: {', '.join(other_files[:_MOST_LISTED])}{more}"


def _file_timeout_s(suite: Suite) -> float:
    """Return the time limit for reading one file, in seconds."""
    execution = (suite.agent.execution, suite.project.execution)
    given = [setting.file_timeout for setting in execution if setting is not None and setting.file_timeout]
    return given[0] if given else FILE_TIMEOUT_S


@contextmanager
def check_query(args: dict[str, Any]) -> Iterator[str]:
    """Yield the query in a call's arguments; inside the context, a model's error about the query becomes a `ToolError`.

    Raises:
        ToolError: the query is blank (code `bad_arguments`), or a model cannot process it (code of the model's error).
    """
    query: str = args["query"]
    if not query.strip():
        raise ToolError("the query is blank", "bad_arguments")
    try:
        yield query
    except ModelCallError as error:
        if error.code not in _QUERY_ERRORS:
            raise
        raise ToolError(error.message, error.code, for_model="the query cannot be searched for; shorten it") from error


def search_result(hits: Sequence[dict[str, Any]], max_bytes: int, note: str = "") -> ToolResult:
    """Return hits as a tool result; the last hits are dropped if all hits together exceed `max_bytes`.

    Args:
        hits: objects with `id`, `text` and `score`, best first.
        max_bytes: largest number of bytes of the hits as JSON.
        note: text for the model before the hits.

    Raises:
        ToolError: `too_large`: the first hit alone exceeds `max_bytes`.
    """
    sizes = [len(json.dumps(hit, ensure_ascii=False).encode()) + 2 for hit in hits]
    kept = list(hits)
    while kept and sum(sizes[: len(kept)]) > max_bytes:
        kept.pop()
    if hits and not kept:
        raise ToolError(f"the first result holds {sizes[0]} bytes; at most {max_bytes} are read", "too_large")
    count = f"Found {len(hits)} result{'' if len(hits) == 1 else 's'}:"
    blocks = (f"[{rank}] {hit['id']} (score {hit['score']:.3f})\n{hit['text']}" for rank, hit in enumerate(kept, 1))
    parts = (*([note] if note else []), count, *blocks) if hits else (_NO_RESULTS,)
    return ToolResult(kept, sum(sizes) or 2, len(kept) < len(hits), for_model="\n\n".join(parts))
