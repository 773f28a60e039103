"""The tool type `hierarchical_document`, which searches structured documents in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.knowledge.definitions import chunk_notes
from holodeck_action.extensions.knowledge.ranking import (
    DIGITS,
    ChunkSearch,
    VectorIndex,
    sort_hits,
    uses_embeddings,
)
from holodeck_action.extensions.knowledge.search_models import (
    Reranker,
    candidate_count,
    context_tokens,
    model_notices,
    write_contexts,
)
from holodeck_action.extensions.knowledge.searching import (
    CONTEXTS,
    EMBEDDINGS,
    QUERIES,
    RERANKING,
    DocumentTools,
    check_name,
    check_query,
    definition_of,
    prefixed_id,
    search_result,
    searchable_files,
    suite_embedder,
    tool_error,
    tool_notices,
)
from holodeck_action.extensions.knowledge.source_files import SourceFile, needs_reader, source_text
from holodeck_action.extensions.knowledge.structure import Chunk, ChunkRules, Document, make_document
from holodeck_action.llm.calls import CALL, CallContext, Meter
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.embeddings import Embedder, count_requests
from holodeck_action.llm.limits.budget import BYTES_PER_TOKEN, text_tokens
from holodeck_action.llm.messages import ToolDefinition
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, resolve_model
from holodeck_action.record.agent_errors import AgentError
from holodeck_action.suite.errors import quoted
from holodeck_action.suite.model.tools import HierarchicalDocumentTool
from holodeck_action.suite.values import Suite
from holodeck_action.targets.documents.reader import DocumentReader
from holodeck_action.targets.own_model.toolbox import PlannedCalls, ToolContext, ToolResult

_EMBEDDING_SETTINGS = ("embedding_model", "context_model", "context_max_tokens", "context_concurrency")
_CONTEXT_SETTINGS = ("context_model", "context_max_tokens", "context_concurrency")
_FUSION_SETTINGS = ("semantic_weight", "keyword_weight", "exact_weight", "rrf_k")
_NOT_RERANKED = "[The reranker gave no usable scores: the results are in the order of the search.]"


class _ToolPlan(Struct, frozen=True):
    """The settings of one tool, resolved before documents are read.

    Attributes:
        entry: the tool's entry in the suite.
        files: the files to search.
        context_model: the model that writes contexts for chunks; None if chunks get no contexts.
        reranker: the model that reranks the hits; None if hits are not reranked.
    """

    entry: HierarchicalDocumentTool
    files: tuple[SourceFile, ...]
    context_model: ModelPlan | None
    reranker: ModelPlan | None

    @property
    def uses_embeddings(self) -> bool:
        """Whether the tool uses semantic search, so its chunks must be embedded."""
        return uses_embeddings(self.entry)


class HierarchicalDocuments(DocumentTools):
    """The tools of type `hierarchical_document` in a suite, with their documents."""

    def __init__(self, suite: Suite, plan: ModelPlan, environ: Mapping[str, str], sender: RequestSender) -> None:
        """Check all settings that can be checked without a model call.

        If a model writes contexts and all files of a tool are text or HTML, they are read and chunked here, so
        that a notice can state the number of calls. `plan_calls` also reads PDF and Office files.

        Args:
            plan: the suite's own model, which writes contexts unless the entry has `context_model`.

        Raises:
            TargetError: a source does not exist, settings contradict each other, or a package is missing.
            ModelConfigError: a model has no key.
        """
        super().__init__(suite, environ, sender.redact)
        self._clients = sender
        self._plans: list[_ToolPlan] = []
        self._read: dict[tuple[str, str], Document] = {}
        found: list[str] = []
        for entry in suite.agent.tools or ():
            if not isinstance(entry, HierarchicalDocumentTool):
                continue
            check_name(entry, suite)
            if 2 * entry.chunk_overlap > entry.max_chunk_tokens:
                message = f"{entry.chunk_overlap} is more than half of max_chunk_tokens ({entry.max_chunk_tokens})"
                raise tool_error(suite, entry.name, "chunk_overlap", message)
            files, others = searchable_files(entry, suite)
            writer = judge = None
            if entry.contextual_embeddings and uses_embeddings(entry):
                writer = plan
                if entry.context_model is not None:
                    writer = resolve_model(entry.context_model, environ, path=f"tools.{entry.name}.context_model")
            if entry.enable_reranking and entry.reranker_model is not None:
                judge = resolve_model(entry.reranker_model, environ, path=f"tools.{entry.name}.reranker_model")
            made = _ToolPlan(entry, files, writer, judge)
            self._plans.append(made)
            found += [*tool_notices(entry, suite, others), *_unused_settings(entry)]
            for given in (writer, judge):
                # The suite's own model reports its own notices.
                found += model_notices(given) if given is not None and given is not plan else ()
            if writer is not None:
                found.append(self._context_notice(made, writer))
        if any(made.uses_embeddings for made in self._plans):
            self._embedder = suite_embedder(suite, environ, sender)
            found += self._embedder.plan.notices
        self.notices = tuple(found)

    async def plan_calls(self) -> Sequence[PlannedCalls]:
        """See `DocumentTools.plan_calls`."""
        libraries = await self._read_and_close(self._read_libraries)
        found: list[PlannedCalls] = []
        lengths: list[int] = []
        longest: list[int] = []
        tokens = more = 0
        for made, library in zip(self._plans, libraries, strict=True):
            for file, each in zip(made.files, library, strict=True):
                self._read[made.entry.name, file.name] = each
            texts = [chunk.text for each in library for chunk in each.chunks]
            written = made.entry.context_max_tokens if made.context_model is not None else 0
            if made.context_model is not None:
                prompts = context_tokens(library)
                calls = len(texts), len(texts)
                found.append(
                    PlannedCalls(CONTEXTS, made.context_model, calls, (prompts, prompts), written * len(texts))
                )
            if made.uses_embeddings:
                lengths += [len(text) for text in texts]
                longest += [len(text) + BYTES_PER_TOKEN * written for text in texts]
                tokens += sum(text_tokens(text) for text in texts)
                more += written * len(texts)
            if made.reranker is not None:
                found.append(PlannedCalls(RERANKING, made.reranker, (1, 1), per_search=True))
        if self._embedder is not None:
            model = self._embedder.plan.model
            requests = count_requests(lengths), count_requests(longest)
            found.append(PlannedCalls(EMBEDDINGS, model, requests, (tokens, tokens + more)))
            found.append(PlannedCalls(QUERIES, model, (1, 1), per_search=True))
        return found

    async def open(self) -> Sequence[HierarchicalSearch]:
        """Read all documents, split them into chunks, write contexts, and embed the chunks.

        Raises:
            AgentError: `tool_unavailable`: a file cannot be read, or a model call failed.
        """
        token = CALL.set(CallContext("agent", 0, None, Meter()))
        try:
            libraries = await self._read_libraries(self._reader)
            described = [
                await self._embedded_texts(made, library) if made.uses_embeddings else []
                for made, library in zip(self._plans, libraries, strict=True)
            ]
            texts = [text for each in described for text in each]
            names = [made.entry.name for made in self._plans if made.uses_embeddings]
            rows = await self._embed(names, texts) if texts else None
        finally:
            CALL.reset(token)
        tools: list[HierarchicalSearch] = []
        begin = 0
        for made, library, own in zip(self._plans, libraries, described, strict=True):
            vectors = None if rows is None or not own else VectorIndex(rows[begin : begin + len(own)])
            begin += len(own)
            tools.append(await asyncio.to_thread(self._build_search, made, library, vectors))
        return tools

    def _context_notice(self, tool: _ToolPlan, writer: ModelPlan) -> str:
        """Return the notice that a model is called to write contexts for a tool's chunks.

        If all files are text or HTML, they are read and chunked; `open` reuses the chunks, and the notice states the
        number of calls.

        Raises:
            TargetError: a file cannot be read.
        """
        entry = tool.entry
        plain = [file for file in tool.files if not needs_reader(file)]
        if len(plain) < len(tool.files):
            return (
                f"tools.{entry.name}: contextual_embeddings makes a call of {writer.title} for each chunk before the "
                "first case; contextual_embeddings: false saves them"
            )

        async def read_texts() -> list[str]:
            return list(await asyncio.gather(*(source_text(file) for file in plain)))

        try:
            for file, text in zip(plain, asyncio.run(read_texts()), strict=True):
                self._read[entry.name, file.name] = self._split_document(tool, file, text)
        except AgentError as error:
            raise tool_error(self._suite, entry.name, "source", error.message) from None
        count = sum(len(self._read[entry.name, file.name].chunks) for file in plain)
        return (
            f"tools.{entry.name}: contextual_embeddings makes {count} calls of {writer.title} before the first "
            "case, one for each chunk; contextual_embeddings: false saves them"
        )

    async def _read_libraries(self, reader: DocumentReader) -> list[list[Document]]:
        return await asyncio.gather(*(self._read_documents(made, reader) for made in self._plans))

    async def _read_documents(self, tool: _ToolPlan, reader: DocumentReader) -> list[Document]:
        try:
            documents = list(await asyncio.gather(*(self._read_document(tool, file, reader) for file in tool.files)))
        except AgentError as error:
            message = f"tools.{tool.entry.name}.source: {error.message}"
            raise AgentError(message, error.code, error.context) from error
        if not any(each.chunks for each in documents):
            source = quoted(tool.entry.source)
            raise AgentError(f"tools.{tool.entry.name}.source: {source} holds no text", "tool_unavailable")
        return documents

    async def _read_document(self, tool: _ToolPlan, file: SourceFile, reader: DocumentReader) -> Document:
        known = self._read.pop((tool.entry.name, file.name), None)
        if known is not None:
            return known
        text = await source_text(file, reader)
        return await asyncio.to_thread(self._split_document, tool, file, text)

    def _split_document(self, tool: _ToolPlan, file: SourceFile, text: str) -> Document:
        entry = tool.entry
        rules = ChunkRules(
            entry.chunking_strategy,
            entry.document_domain,
            entry.max_chunk_tokens,
            entry.chunk_overlap,
            entry.max_subsection_depth,
        )
        found = make_document(file.name, text, rules)
        if file.name not in self._ambiguous:
            return found
        return replace(found, chunks=tuple(replace(chunk, id=prefixed_id(entry, chunk.id)) for chunk in found.chunks))

    async def _embedded_texts(self, tool: _ToolPlan, documents: Sequence[Document]) -> list[str]:
        """Return the texts to embed, one per chunk: its context, if any, and the chunk.

        Raises:
            AgentError: `tool_unavailable`: the context of a chunk could not be written.
        """
        chunks = [chunk.text for each in documents for chunk in each.chunks]
        if tool.context_model is None:
            return chunks
        entry = tool.entry
        try:
            written = await write_contexts(
                documents,
                tool.context_model,
                self._clients,
                most_tokens=entry.context_max_tokens,
                concurrency=entry.context_concurrency,
            )
        except (AgentError, ModelConfigError) as error:
            context = error.context if isinstance(error, AgentError) else {}
            message = f"tools.{entry.name}: a chunk got no context (contextual_embeddings): {error}"
            raise AgentError(message, "tool_unavailable", context) from error
        return [f"{context}\n\n{chunk}" for context, chunk in zip(written, chunks, strict=True)]

    def _build_search(
        self, tool: _ToolPlan, documents: Sequence[Document], vectors: VectorIndex | None
    ) -> HierarchicalSearch:
        entry = tool.entry
        chunks = [chunk for each in documents for chunk in each.chunks]
        wanted = {"with_definitions": entry.extract_definitions, "with_references": entry.extract_cross_references}
        notes = [note for each in documents for note in chunk_notes(each, **wanted)]
        judge = None
        if tool.reranker is not None:
            judge = Reranker(tool.reranker, self._clients, max_passages=candidate_count(entry.top_k))
        search = ChunkSearch(chunks, entry, vectors)
        return HierarchicalSearch(entry, chunks, notes, search, self._embedder if tool.uses_embeddings else None, judge)


class HierarchicalSearch(Struct, frozen=True):
    """Searches the documents of one tool; `notes` has the note for each chunk."""

    entry: HierarchicalDocumentTool
    chunks: Sequence[Chunk]
    notes: Sequence[str]
    search: ChunkSearch
    embedder: Embedder | None
    reranker: Reranker | None
    is_retrieval: ClassVar[bool] = True

    @property
    def definition(self) -> ToolDefinition:
        """The tool's definition that the model receives."""
        return definition_of(self.entry)

    async def call(self, args: dict[str, Any], session: str, *, max_bytes: int, timeout_s: float | None) -> ToolResult:
        """Search the documents; see `Tool.call`.

        Raises:
            ToolError: the query is blank, a model refuses it, or the first hit alone is larger than `max_bytes`.
            ModelCallError: a model did not answer. This ends the turn, since the agent cannot correct such a failure.
        """
        with check_query(args) as query:
            vector = None if self.embedder is None else (await self.embedder.embed([query]))[0]
            found = await asyncio.to_thread(self.search.find, query, vector)
            if self.reranker is None:
                hits = [self._hit(place, score) for place, score in found[: self.entry.top_k]]
                return search_result(hits, max_bytes)
            return await self._rerank(self.reranker, query, found, max_bytes)

    async def _rerank(
        self, reranker: Reranker, query: str, candidates: Sequence[tuple[int, float]], max_bytes: int
    ) -> ToolResult:
        """Return the best hits, sorted by the reranker's scores.

        If the reranker gives no valid scores, the hits are sorted by the search's scores, with a note for the model.
        """
        judged = candidates[: candidate_count(self.entry.top_k)]
        if not judged:
            return search_result([], max_bytes)
        scores = await reranker.scores(query, [self.chunks[place].text for place, _ in judged])
        if scores is None:
            kept = [{**self._hit(place, score), "reranked": False} for place, score in judged[: self.entry.top_k]]
            return search_result(kept, max_bytes, note=_NOT_RERANKED)
        hits = [
            {**self._hit(judged[place][0], score), "search_score": judged[place][1], "reranked": True}
            for place, score in sort_hits(dict(enumerate(scores)))[: self.entry.top_k]
        ]
        return search_result(hits, max_bytes)

    def _hit(self, place: int, score: float) -> dict[str, Any]:
        chunk, note = self.chunks[place], self.notes[place]
        text = f"{chunk.text}\n\n{note}" if note else chunk.text
        hit = {"id": chunk.id, "text": text, "score": round(score, DIGITS), "source": chunk.source}
        return {**hit, "section": chunk.title} if chunk.title else hit


def _unused_settings(entry: HierarchicalDocumentTool) -> Iterator[str]:
    """Yield a notice for each group of settings that have no effect."""
    written = entry.model_fields_set
    index = entry.keyword_index
    if index is not None and index.provider != "in-memory":
        yield f"tools.{entry.name}: keyword_index {index.provider} is not used: keywords are searched in memory"
    groups: list[tuple[Sequence[str], str]] = []
    if not uses_embeddings(entry):
        names = ("contextual_embeddings", *_EMBEDDING_SETTINGS) if entry.contextual_embeddings else _EMBEDDING_SETTINGS
        groups.append((names, "without semantic search"))
    elif not entry.contextual_embeddings:
        groups.append((_CONTEXT_SETTINGS, "without contextual_embeddings"))
    if entry.search_mode != "hybrid":
        groups.append((_FUSION_SETTINGS, f"in {entry.search_mode} search"))
    if not entry.enable_reranking:
        groups.append((("reranker_model",), "without enable_reranking"))
    for unused, reason in groups:
        given = [name for name in unused if name in written and getattr(entry, name) is not None]
        if given:
            yield f"tools.{entry.name}: {', '.join(given)} {'are' if len(given) > 1 else 'is'} not used {reason}"


def build(context: ToolContext) -> HierarchicalDocuments:
    """Return the tools of type `hierarchical_document` for a suite.

    Raises:
        TargetError: an entry is invalid or its documents cannot be used.
    """
    return HierarchicalDocuments(context.suite, context.plan, context.environ, context.wire)
