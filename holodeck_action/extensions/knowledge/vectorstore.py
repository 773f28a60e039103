"""The tool type `vectorstore`, which searches documents by embeddings, in memory."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.knowledge.chunking import CHUNK_OVERLAP, CHUNK_SIZE, chunk_text
from holodeck_action.extensions.knowledge.ranking import VectorIndex
from holodeck_action.extensions.knowledge.records import RecordError, delimiter_of, fields_text, read_records
from holodeck_action.extensions.knowledge.searching import (
    EMBEDDINGS,
    QUERIES,
    DocumentTools,
    check_name,
    check_query,
    definition_of,
    has_own_ids,
    prefixed_id,
    search_result,
    searchable_files,
    suite_embedder,
    tool_error,
    tool_notices,
)
from holodeck_action.extensions.knowledge.source_files import SourceFile, source_text
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.embeddings import Embedder, count_requests
from holodeck_action.llm.limits.budget import text_tokens
from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.tools import VectorstoreTool
from holodeck_action.suite.values import Suite
from holodeck_action.targets.documents.reader import DocumentReader
from holodeck_action.targets.own_model.toolbox import PlannedCalls, ToolContext, ToolResult

_RECORDS_ONLY = (
    "meta_fields",
    "record_path",
    "record_prefix",
    "meta_prefix",
    "id_field",
    "field_separator",
    "delimiter",
)
_TEXTS_ONLY = ("chunk_size", "chunk_overlap")


class Passage(Struct, frozen=True):
    """One searchable part of a source: a chunk of text or a record.

    Attributes:
        id: the file's name, `#`, and the record's id or the chunk's number in the file, from 1; only the record's id if
            the source is a single file of records. The tool's name precedes the id if another tool uses the same id.
        source: name of the file.
        embedded: the text that is embedded.
        text: the text that the model receives: the embedded text and the record's further fields.
        metadata: the record's further fields by name.
    """

    id: str
    source: str
    embedded: str
    text: str
    metadata: Mapping[str, Any]


class VectorStores(DocumentTools):
    """The tools of type `vectorstore` in a suite, with their documents."""

    def __init__(self, suite: Suite, environ: Mapping[str, str], sender: RequestSender) -> None:
        """Check all settings that can be checked without reading files.

        Raises:
            TargetError: a source does not exist, settings contradict each other, or a required package is not
                installed.
            ModelConfigError: the embedding model has no API key.
        """
        embedder = suite_embedder(suite, environ, sender)
        super().__init__(suite, environ, sender.redact)
        self._embedder: Embedder = embedder
        self._entries = [tool for tool in suite.agent.tools or () if isinstance(tool, VectorstoreTool)]
        self._own_ids = [has_own_ids(entry, suite) for entry in self._entries]
        self._sources: list[tuple[SourceFile, ...]] = []
        self._known: list[list[Passage]] | None = None
        notices = [*embedder.plan.notices]
        for entry in self._entries:
            _check_settings(entry, suite)
            files, others = searchable_files(entry, suite)
            self._sources.append(files)
            notices += _setting_notices(entry, suite, others)
        self.notices = tuple(notices)

    async def plan_calls(self) -> Sequence[PlannedCalls]:
        """See `DocumentTools.plan_calls`."""
        self._known = await self._read_and_close(self._read_stores)
        texts = dict.fromkeys(passage.embedded for passages in self._known for passage in passages)
        requests = count_requests([len(text) for text in texts])
        tokens = sum(text_tokens(text) for text in texts)
        model = self._embedder.plan.model
        return (
            PlannedCalls(EMBEDDINGS, model, (requests, requests), (tokens, tokens)),
            PlannedCalls(QUERIES, model, (1, 1), per_search=True),
        )

    async def open(self) -> Sequence[VectorSearch]:
        """Read all documents, split them into passages, and embed the passages.

        Raises:
            AgentError: `tool_unavailable`: a file cannot be read or its texts cannot be embedded.
        """
        stores = self._separate_ids(await self._read_stores(self._reader) if self._known is None else self._known)
        token = CALL.set(CallContext("embedding", 0, None, Meter()))
        try:
            names = [entry.name for entry in self._entries]
            rows = await self._embed(names, [passage.embedded for passages in stores for passage in passages])
        finally:
            CALL.reset(token)
        tools: list[VectorSearch] = []
        begin = 0
        for entry, passages in zip(self._entries, stores, strict=True):
            index = VectorIndex(rows[begin : begin + len(passages)])
            tools.append(VectorSearch(entry, passages, index, self._embedder))
            begin += len(passages)
        return tools

    async def _read_stores(self, reader: DocumentReader) -> list[list[Passage]]:
        return await asyncio.gather(
            *(
                self._read_passages(entry, files, reader)
                for entry, files in zip(self._entries, self._sources, strict=True)
            )
        )

    def _separate_ids(self, stores: Sequence[list[Passage]]) -> list[list[Passage]]:
        """Return the passages, with the tool's name before the ids if another file has a record with the same id."""
        owners: dict[str, set[Path]] = defaultdict(set)
        for own, passages, files in zip(self._own_ids, stores, self._sources, strict=True):
            for passage in passages if own else ():
                owners[passage.id].add(files[0].path.resolve())
        return [
            [replace(passage, id=prefixed_id(entry, passage.id)) for passage in passages]
            if own and any(len(owners[passage.id]) > 1 for passage in passages)
            else passages
            for entry, own, passages in zip(self._entries, self._own_ids, stores, strict=True)
        ]

    async def _read_passages(
        self, entry: VectorstoreTool, files: Sequence[SourceFile], reader: DocumentReader
    ) -> list[Passage]:
        try:
            texts = await asyncio.gather(*(source_text(file, reader) for file in files))
        except AgentError as error:
            raise AgentError(f"tools.{entry.name}.source: {error.message}", error.code, error.context) from error
        alone = (self._suite.folder / entry.source).is_file()
        passages: list[Passage] = []
        for file, text in zip(files, texts, strict=True):
            try:
                found = (
                    _record_passages(file, text, entry, alone)
                    if entry.vector_field is not None
                    else _text_passages(file, text, entry)
                )
                if file.name in self._ambiguous and not (alone and entry.vector_field is not None):
                    found = (replace(passage, id=prefixed_id(entry, passage.id)) for passage in found)
                passages += await asyncio.to_thread(list, found)
            except RecordError as error:
                raise AgentError(f"tools.{entry.name}.source: {file.name}: {error}", "tool_unavailable") from None
        first: dict[str, str] = {}
        for passage in passages:
            if passage.id in first:
                raise AgentError(
                    f"tools.{entry.name}.source: two records have the id {quoted(passage.id)}", "tool_unavailable"
                )
            first[passage.id] = passage.source
        if not passages:
            raise AgentError(f"tools.{entry.name}.source: {quoted(entry.source)} holds no text", "tool_unavailable")
        return passages


class VectorSearch(Struct, frozen=True):
    """Searches the documents of one tool."""

    entry: VectorstoreTool
    passages: Sequence[Passage]
    index: VectorIndex
    embedder: Embedder
    is_retrieval: ClassVar[bool] = True

    @property
    def definition(self) -> ToolDefinition:
        """The tool's definition that the model receives."""
        return definition_of(self.entry)

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Search the documents; see `Tool.call`.

        Raises:
            ToolError: the query is blank, the model refuses it, or the first hit alone is larger than `max_bytes`.
            ModelCallError: the query could not be embedded. This ends the turn, since the agent cannot correct such a
                failure.
        """
        with check_query(args) as query:
            row = await self.embedder.embed([query])
        found = await asyncio.to_thread(
            self.index.search, row[0], max_hits=self.entry.top_k, min_score=self.entry.min_similarity_score
        )
        return search_result([_hit(self.passages[place], score) for place, score in found], max_bytes)


def _check_settings(entry: VectorstoreTool, suite: Suite) -> None:
    """Check the settings of a tool for contradictions.

    Raises:
        TargetError: settings contradict each other, or the tool's name cannot be used.
    """
    size = CHUNK_SIZE if entry.chunk_size is None else entry.chunk_size
    if entry.chunk_overlap is not None and entry.chunk_overlap >= size:
        message = (
            f"{entry.chunk_overlap} is not less than chunk_size ({size}): each chunk must start after the "
            "start of the previous one"
        )
        raise tool_error(suite, entry.name, "chunk_overlap", message)
    delimiter = delimiter_of(entry)
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '"\r\n'):
        raise tool_error(suite, entry.name, "delimiter", "must be one character, and neither a quote nor a line break")
    check_name(entry, suite)


def _setting_notices(entry: VectorstoreTool, suite: Suite, other_files: Sequence[str]) -> Iterator[str]:
    yield from tool_notices(entry, suite, other_files)
    unused = _RECORDS_ONLY if entry.vector_field is None else _TEXTS_ONLY
    written = [name for name in unused if name in entry.model_fields_set]
    if written:
        reason = "without vector_field" if entry.vector_field is None else "with vector_field: a record is one chunk"
        verb = "are" if len(written) > 1 else "is"
        yield f"tools.{entry.name}: {', '.join(written)} {verb} not used {reason}"


def _text_passages(file: SourceFile, text: str, entry: VectorstoreTool) -> Iterator[Passage]:
    size = CHUNK_SIZE if entry.chunk_size is None else entry.chunk_size
    overlap = min(CHUNK_OVERLAP, size - 1) if entry.chunk_overlap is None else entry.chunk_overlap
    for number, piece in enumerate(chunk_text(text, size=size, overlap=overlap), 1):
        yield Passage(f"{file.name}#{number}", file.name, piece, piece, {})


def _record_passages(file: SourceFile, text: str, entry: VectorstoreTool, is_whole_source: bool) -> Iterator[Passage]:
    """Yield the records of a file as passages.

    Args:
        is_whole_source: whether the file is the whole source, so that passages keep the ids of records.
    """
    for record in read_records(text, file.suffix, entry):
        further = fields_text(record.metadata)
        shown = f"{record.text}\n{further}" if further else record.text
        name = record.id if is_whole_source else f"{file.name}#{record.id}"
        yield Passage(name, file.name, record.text, shown, record.metadata)


def _hit(passage: Passage, score: float) -> dict[str, Any]:
    hit: dict[str, Any] = {"id": passage.id, "text": passage.text, "score": score, "source": passage.source}
    return {**hit, "metadata": dict(passage.metadata)} if passage.metadata else hit


def build(context: ToolContext) -> VectorStores:
    """Return the tools of type `vectorstore` for a suite.

    Raises:
        TargetError: an entry is invalid or its documents cannot be used.
    """
    return VectorStores(context.suite, context.environ, context.wire)
