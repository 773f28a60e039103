"""Stores verdicts of judges between runs, as JSON documents without secrets.

Each document contains the digests of the recorded model calls on which the verdict is based, and a digest of its own
content, the seal. A verdict is computed again if its calls have changed or if the document was edited. The seal is not
a signature: it does not protect against forgery.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from holodeck_action.llm.cassette.documents import DamagedLineError, Documents, parse_document
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.evaluation import Polarity, Score
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import Usage
from holodeck_action.record.serialization import from_plain
from holodeck_action.suite.identity import canonical_json
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.redaction import Redactor

_RECOMPUTED = "the verdict was computed again"

FORMAT = 3
"""Version of the document format. It is part of every key, so that verdicts in an earlier format are not found."""


class StoredVerdict(Struct, frozen=True):
    """A stored verdict: the result of an evaluation and its cost.

    Attributes:
        result: result of the metric.
        duration_ms: wall time of the evaluation in milliseconds.
        usage: usage of the evaluation's model calls.
        calls: keys of the evaluation's model calls.
    """

    result: EvaluationResult
    duration_ms: float
    usage: Usage
    calls: frozenset[str] = frozenset()


class VerdictCache:
    """The verdicts in one folder. A verdict that cannot be read counts as missing, and a verdict that cannot be written
    is not stored."""

    def __init__(
        self,
        documents: Documents,
        redactor: Redactor,
        ttl_s: float | None,
        now: Callable[[], datetime],
        stored: Callable[[str], str | None],
        *,
        reads: bool = True,
        writes: bool = True,
        needs_calls: bool = False,
    ) -> None:
        """Store the arguments; no file is read or written.

        Args:
            documents: the store of the documents.
            redactor: masks secrets in stored documents.
            ttl_s: lifetime of a verdict in seconds; None if there is no limit.
            now: returns the current time, timezone-aware and in UTC.
            stored: returns the digest of a stored model call by the call's key; None if the call is not stored.
            reads: whether verdicts may be read; false if calls are being recorded, so that every judge must be called.
            writes: whether verdicts may be written; false if the folder is only replayed.
            needs_calls: whether a verdict is used only if all its model calls are still stored.
        """
        self._reads = reads
        self._writes = writes
        self._needs_calls = needs_calls
        self._stored = stored
        self._documents = documents
        # A stored verdict must be equal to a new one.
        self._redactor = redactor.declared
        self._ttl = None if ttl_s is None else timedelta(seconds=ttl_s)
        self._now = now
        self.trouble: str | None = None

    def read(self, key: str) -> StoredVerdict | None:
        """Return a stored verdict; None if it is missing, expired or invalid."""
        content = self._read_document(key)
        if content is None:
            return None
        try:
            calls: dict[str, str] = from_plain(content["calls"], dict[str, str])
            # A stored verdict always has at least one call.
            unproven = self._needs_calls and not calls
            if unproven or not all(self._matches_recording(call, digest) for call, digest in calls.items()):
                self.trouble = (
                    f"{self._documents.describe_location(key)} does not match its recorded calls; {_RECOMPUTED}"
                )
                return None
            return _parse_verdict(content)
        except (EvaluationError, OverflowError, ValueError, RecursionError, KeyError):
            self.trouble = f"{self._documents.describe_location(key)} is not a verdict of this version; delete it"
            return None

    def _matches_recording(self, call: str, digest: str) -> bool:
        found = self._stored(call)
        # In a cache, calls may expire before their verdict.
        return found == digest or (found is None and not self._needs_calls)

    def close(self) -> None:
        """Close the store of documents."""
        self._documents.close()

    def write(self, key: str, verdict: StoredVerdict) -> None:
        """Store a verdict."""
        result, usage = verdict.result, verdict.usage
        self._write_document(
            key,
            {
                "result": {
                    "score": result.score,
                    "passed": result.passed,
                    "threshold": result.threshold,
                    "reasoning": result.reasoning,
                    "metric_name": result.metric_name,
                    "raw_score": result.raw_score,
                    "evaluation_steps": None if result.evaluation_steps is None else list(result.evaluation_steps),
                    "polarity": result.polarity,
                    "confidence": result.confidence,
                    "metadata": dict(result.metadata),
                },
                # A missing call gets a digest that matches no recorded call.
                "calls": {call: self._stored(call) or "" for call in sorted(verdict.calls)},
                "duration_ms": round(verdict.duration_ms, 1),
                "usage": {
                    "prompt_tokens": usage.prompt_tokens,
                    "completion_tokens": usage.completion_tokens,
                    "cost_usd": usage.cost_usd,
                },
            },
        )

    def read_steps(self, key: str) -> tuple[str, ...] | None:
        """Return the evaluation steps that a judge wrote for a G-Eval metric; None if they are not stored."""
        content = self._read_document(key)
        steps = None if content is None else content.get("steps")
        if not isinstance(steps, list) or not steps or not all(isinstance(step, str) for step in steps):
            return None
        return tuple(steps)

    def write_steps(self, key: str, steps: tuple[str, ...]) -> None:
        """Store the evaluation steps that a judge wrote for a G-Eval metric."""
        self._write_document(key, {"steps": list(steps)})

    def _read_document(self, key: str) -> dict[str, Any] | None:
        if not self._reads:
            return None
        try:
            data = self._documents.read(key)
            if data is None:
                return None
            document = data.parse(parse_document)
            if document.get("format") != FORMAT:
                return None
            at = datetime.fromisoformat(document["kept_at"])
            if document.pop("seal", None) != _seal(document):
                self.trouble = (
                    f"{self._documents.describe_location(key)} was changed after it was written; {_RECOMPUTED}"
                )
                return None
            fresh = self._ttl is None or self._now() - at < self._ttl
        except OSError as error:
            self.trouble = (
                f"{self._documents.describe_location(key)} cannot be read: {error.strerror or type(error).__name__}"
            )
            return None
        except DamagedLineError as error:
            self.trouble = f"{error.place} is not a verdict of this version; delete it"
            return None
        except (ForeignError, ValueError, KeyError, TypeError):
            self.trouble = f"{self._documents.describe_location(key)} is not a verdict of this version; delete it"
            return None
        return document if fresh else None

    def _write_document(self, key: str, content: dict[str, Any]) -> None:
        if not self._writes:
            return
        document = {
            "format": FORMAT,
            "kept_at": self._now().isoformat(timespec="seconds"),
            **self._redactor.value(content),
        }
        try:
            document["seal"] = _seal(document)
            text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
        except (ValueError, TypeError):
            # JSON cannot represent it exactly.
            return
        try:
            self._documents.write(key, text)
        except OSError as error:
            place = self._documents.describe_location(key)
            self.trouble = f"{place} cannot be written: {error.strerror or type(error).__name__}"


def _seal(document: Mapping[str, Any]) -> str:
    """Return the seal of a document: a digest of everything in it except its key.

    Raises:
        TypeError, ValueError: JSON cannot represent the document.
    """
    bare = {name: value for name, value in document.items() if name != "key"}
    return hashlib.sha256(canonical_json(bare)).hexdigest()


class _Result(Struct):
    score: Score
    passed: bool | None
    reasoning: str
    metric_name: str
    threshold: int | float | None
    raw_score: int | float | None
    evaluation_steps: tuple[str, ...] | None
    metadata: dict[str, Any]
    polarity: Polarity
    confidence: int | float | None


class _Usage(Struct):
    prompt_tokens: Count | None
    completion_tokens: Count | None
    cost_usd: Amount | None


class _Document(Struct):
    """The schema of a document with a verdict."""

    result: _Result
    duration_ms: Amount
    usage: _Usage


def _parse_verdict(content: Mapping[str, Any]) -> StoredVerdict:
    kept = from_plain(content, _Document)
    return StoredVerdict(EvaluationResult(**asdict(kept.result)), kept.duration_ms, Usage(**asdict(kept.usage)))
