"""Embeddings of texts as vectors of length 1, requested over the wire from OpenAI, Azure OpenAI and Ollama.

The vectors are equal on all processors, because no result depends on the order in which floats are summed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.llm.calls import (
    CALL,
    Account,
    Answer,
    CallContext,
    CallRecord,
    HttpRequest,
    Meter,
    WireError,
    use_context,
)
from holodeck_action.llm.clients import RequestSender
from holodeck_action.llm.errors import ModelCallError, call_error, malformed_error, status_error
from holodeck_action.llm.outcomes import error_payload
from holodeck_action.llm.providers import ModelConfigError, ModelPlan, resolve_model
from holodeck_action.suite.model.agent import AgentConfig
from holodeck_action.suite.model.providers import LLMProvider
from holodeck_action.text.lazy_patterns import lazy_pattern

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_DEFAULT_MODEL = "text-embedding-3-small"
_DEFAULT_OLLAMA_MODEL = "nomic-embed-text:latest"
_ONE_LENGTH = lazy_pattern(r"(?:^|/)text-embedding-ada-002")
"""Matches the model that does not support `dimensions`; its vectors have 1,536 numbers."""
_ADA_LENGTH = 1536

MOST_TEXTS = 128
"""Maximum texts of one request."""
MOST_CHARACTERS = 100_000
"""Maximum characters of a request with more than one text; OpenAI accepts 300,000 tokens."""

_GRID = 2**19
"""The numbers of a vector are rounded to integer multiples of its largest number divided by `_GRID`. The sum of the
squares of up to 10,000 such integers is below 2**53, so it is exact in any order of summation.
"""


class EmbeddingPlan(Struct, frozen=True):
    """An embedding model with resolved URL and key; creating it imports and opens nothing.

    Attributes:
        model: plan with name, URL and key; its settings are not sent.
        dimensions: length of the vectors; None to use the model's default.
        sends_dimensions: whether requests contain `dimensions`.
        notices: notices for the reader of the record, one sentence each.
    """

    model: ModelPlan
    dimensions: int | None = None
    sends_dimensions: bool = True
    notices: tuple[str, ...] = ()

    @property
    def provider(self) -> str:
        """The provider's name in agent.yaml."""
        return self.model.provider

    @property
    def name(self) -> str:
        """The name of the model, or of the deployment for Azure OpenAI."""
        return self.model.name

    @property
    def account(self) -> Account:
        """The service and the key."""
        return self.model.account

    @property
    def api_version(self) -> str | None:
        """The query parameter `api-version`; Azure OpenAI only."""
        return self.model.api_version

    @property
    def deployments(self) -> bool:
        """Whether Azure OpenAI is called under `/openai/deployments/NAME`."""
        return self.model.deployments

    @property
    def title(self) -> str:
        """The model's name for messages."""
        return self.model.title


def resolve_embedding(
    suite_agent: AgentConfig, environ: Mapping[str, str], *, model: str | None, dimensions: int | None, path: str
) -> EmbeddingPlan:
    """Return the embedding model: `embedding_provider` if the suite has one, else the provider of its model.

    Args:
        suite_agent: the suite's agent.yaml.
        environ: the job's environment.
        model: `embedding_model` of the tools. If it is None, the name in `embedding_provider` is used, else
            text-embedding-3-small, or nomic-embed-text:latest with Ollama.
        dimensions: `embedding_dimensions` of the tools; None to use the model's default.
        path: path of the tool in agent.yaml, for messages.

    Raises:
        ModelConfigError: the key is missing, the URL is invalid, or the provider or model does not support embeddings
            or these dimensions.
    """
    given = suite_agent.embedding_provider
    config = embedding_reference(suite_agent, model)
    if config.provider == "anthropic":
        raise ModelConfigError(f"{path}: anthropic has no embedding models; give `embedding_provider`")
    name = config.name
    plan = resolve_model(config, environ, path="model" if given is None else "embedding_provider")
    fixed = _ONE_LENGTH.search(name) is not None
    if fixed and dimensions not in (None, _ADA_LENGTH):
        raise ModelConfigError(
            f"{path}.embedding_dimensions is {dimensions}, but vectors of {name} have {_ADA_LENGTH} numbers; "
            "remove it, or use a text-embedding-3 model"
        )
    notices = tuple(_unused_settings(given)) if given is not None else ()
    return EmbeddingPlan(plan, dimensions, dimensions is not None and not fixed, notices)


def embedding_reference(suite_agent: AgentConfig, model: str | None) -> LLMProvider:
    """Return the reference of the embedding model; see `resolve_embedding`."""
    given = suite_agent.embedding_provider
    source = suite_agent.model if given is None else given
    default = _DEFAULT_OLLAMA_MODEL if source.provider == "ollama" else _DEFAULT_MODEL
    name = model or (default if given is None else given.name)
    return source.model_copy(update={"name": name, "temperature": None, "top_p": None, "max_tokens": None})


class Embedder:
    """Embeds texts. If `embed` receives a single text, its vector is kept in memory for the rest of the run.

    Calls use the deadline and the meter of the context variable `CALL`, but the trial index is always 0, so that all
    trials share the answers. An answer from memory is recorded with the tokens and the price of the original call,
    so that a turn's usage does not depend on which turn came first.
    """

    def __init__(self, plan: EmbeddingPlan, sender: RequestSender) -> None:
        """Create the instance; nothing is opened yet.

        Args:
            plan: the model.
            sender: the wire; the caller closes it.
        """
        self.plan = plan
        self._sender = sender
        self._memory: dict[str, tuple[NDArray[np.float32], tuple[CallRecord, ...]]] = {}
        self._length: int | None = plan.dimensions

    @property
    def title(self) -> str:
        """The model's name for messages."""
        return self.plan.title

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Embed texts, with concurrent requests if there are many.

        Args:
            texts: the texts, none of them blank; each distinct text is sent once.

        Returns:
            An array of shape (len(texts), d) whose rows have length 1.

        Raises:
            ModelCallError: there is no answer, the answer is malformed (`bad_reply`), or a text is blank
                (`bad_request`).
        """
        import numpy as np

        clean = [text.encode("utf-8", "replace").decode() for text in texts]
        if any(not text.strip() for text in clean):
            raise ModelCallError("a blank text cannot be embedded", "bad_request", {"model": self.plan.name})
        if not clean:
            return np.zeros((0, self._length or 0), np.float32)
        if len(clean) == 1:
            return await self._embed_one(clean[0])
        places = {text: place for place, text in enumerate(dict.fromkeys(clean))}
        batches = list(_batches(list(places)))
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._ask(batch)) for batch in batches]
        except ExceptionGroup as failed:
            raise failed.exceptions[0] from None
        rows = np.concatenate([task.result() for task in tasks])
        return rows[[places[text] for text in clean]]

    async def _embed_one(self, text: str) -> NDArray[np.float32]:
        """Embed one text, from memory if it was embedded before."""
        context = CALL.get(None)
        meter = Meter() if context is None else context.meter
        known = self._memory.get(text)
        if known is not None:
            row, records = known
            for record in records:
                meter.add(replace(record, cached=True, attempts=0))
            return row
        own = Meter()
        try:
            row = await self._ask([text], own)
        finally:
            for record in own.records:
                meter.add(record)
        self._memory[text] = row, own.records
        return row

    async def _ask(self, texts: Sequence[str], meter: Meter | None = None) -> NDArray[np.float32]:
        context = CALL.get(None)
        deadline = None if context is None else context.deadline
        meter = meter or (Meter() if context is None else context.meter)
        try:
            with use_context(CallContext("embedding", 0, deadline, meter)):
                answer = await self._post(texts)
        except WireError as error:
            raise call_error(error, self.plan.model) from error
        if answer.status != 200:
            raise self._refusal_error(answer)
        return self._read_vectors(answer.payload, len(texts))

    async def _post(self, texts: Sequence[str]) -> Answer:
        plan, account = self.plan, self.plan.account
        body: dict[str, Any] = {"model": plan.name, "input": list(texts), "encoding_format": "float"}
        if plan.sends_dimensions:
            body["dimensions"] = plan.dimensions
        path = f"/openai/deployments/{quote(plan.name, safe='')}" if plan.deployments else ""
        query = f"?api-version={quote(plan.api_version, safe='')}" if plan.api_version else ""
        auth = {"api-key": account.key} if plan.deployments else {"authorization": f"Bearer {account.key}"}
        url = f"{account.base_url}{path}/embeddings{query}"
        headers = {"content-type": "application/json", **auth}
        return await self._sender.answer(account, HttpRequest(url, headers, json.dumps(body).encode(), body))

    def _refusal_error(self, answer: Answer) -> ModelCallError:
        """Return the error of a refused request, worded as for chat models."""
        described = status_error(answer.status, error_payload(answer), self.plan.model, self._sender.redact)
        if self.plan.sends_dimensions and "dimension" in described.message:
            hint = "remove embedding_dimensions to get vectors of the model's default length"
            return ModelCallError(f"{described.message}; {hint}", described.code, described.context)
        return described

    def _read_vectors(self, payload: Any, count: int) -> NDArray[np.float32]:
        """Return the vectors of an answer in the order of the texts, with length 1.

        Raises:
            ModelCallError: `bad_reply`.
        """
        try:
            vectors = _parse_vectors(payload, count)
            rows = _normalise(vectors)
        except ValueError as error:
            raise malformed_error(self.plan.model, str(error), self._sender.redact) from None
        length = int(rows.shape[1])
        if self._length is None:
            self._length = length
        if length != self._length:
            wanted = "embedding_dimensions asks for" if self.plan.dimensions is not None else "earlier ones have"
            reason = f"a vector has {length} numbers, {wanted} {self._length}"
            raise malformed_error(self.plan.model, reason, self._sender.redact)
        return rows


def _unused_settings(config: LLMProvider) -> Iterator[str]:
    written = [name for name in ("temperature", "max_tokens", "top_p") if name in config.model_fields_set]
    if written:
        verb = "are" if len(written) > 1 else "is"
        yield f"embedding_provider: {' and '.join(written)} {verb} not sent: an embedding model takes no such setting"


def count_requests(lengths: Sequence[int]) -> int:
    """Return the number of requests needed to embed distinct texts of the given lengths in characters."""
    return sum(1 for _ in _batches(["x" * length for length in lengths]))


def _batches(texts: Sequence[str]) -> Iterator[list[str]]:
    """Split texts into batches, in their order, each small enough for one request to any provider."""
    batch: list[str] = []
    characters = 0
    for text in texts:
        if batch and (len(batch) == MOST_TEXTS or characters + len(text) > MOST_CHARACTERS):
            yield batch
            batch, characters = [], 0
        batch.append(text)
        characters += len(text)
    if batch:
        yield batch


def _parse_vectors(answer: Any, count: int) -> list[list[float]]:
    """Return the vectors of an answer in the order of their `index`.

    Raises:
        ValueError: there is not exactly one vector per text; the message is a clause with the reason.
    """
    items = answer.get("data") if isinstance(answer, Mapping) else None
    if not isinstance(items, list):
        raise ValueError("it holds no list `data`")
    if len(items) != count:
        raise ValueError(f"it holds {len(items)} vectors for {count} texts")
    placed: dict[int, list[float]] = {}
    for place, item in enumerate(items):
        index = item.get("index", place) if isinstance(item, Mapping) else None
        if type(index) is not int or not 0 <= index < count or index in placed:
            raise ValueError(f"data[{place}].index is missing, duplicate or out of range")
        numbers = item.get("embedding")
        if not isinstance(numbers, list) or not numbers or any(type(n) not in (float, int) for n in numbers):
            raise ValueError(f"data[{place}].embedding is not a list of numbers")
        placed[index] = numbers
    if len({len(numbers) for numbers in placed.values()}) > 1:
        raise ValueError("its vectors differ in length")
    return [placed[index] for index in range(count)]


def _normalise(vectors: list[list[float]]) -> NDArray[np.float32]:
    """Scale vectors to length 1.

    Raises:
        ValueError: a vector is zero or not finite.
    """
    import numpy as np

    try:
        rows = np.asarray(vectors, np.float64)
    except OverflowError:
        raise ValueError("a vector holds a number that is too large") from None
    if not np.isfinite(rows).all():
        raise ValueError("a vector holds a number that is not finite")
    largest = np.abs(rows).max(axis=1, keepdims=True)
    if not largest.all():
        raise ValueError("a vector is zero")
    steps = np.rint(rows / largest * _GRID)
    squares = (steps * steps).sum(axis=1, keepdims=True)
    unit: NDArray[np.float32] = (steps / np.sqrt(squares)).astype(np.float32)
    return unit
