"""Verdicts kept between runs as documents, free of secrets.

Each is sealed: it holds the digests of the recorded calls that it came from, and a digest of itself. One that does not
fit its calls, or that was edited, is computed again. Like the digest of a record, a seal is no signature.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from holodeck_action.llm.cassette.tapes import DamagedError, Documents, parse_document
from holodeck_action.metrics.errors import EvaluationError
from holodeck_action.metrics.result import EvaluationResult
from holodeck_action.record.evaluation import Polarity, Score
from holodeck_action.record.facts import Amount, Count
from holodeck_action.record.record import Usage
from holodeck_action.record.serialization import from_plain
from holodeck_action.text.foreign import ForeignError
from holodeck_action.text.redaction import Redactor

_AGAIN = "the verdict was computed again"

FORMAT = 3
"""Of the documents, and part of every key: another one finds nothing that was kept."""


class KeptVerdict(Struct, frozen=True):
    """A completed evaluation as it was.

    Attributes:
        result: what it came to.
        duration_ms: its wall time in milliseconds.
        usage: what its calls took.
        calls: the keys of its calls.
    """

    result: EvaluationResult
    duration_ms: float
    usage: Usage
    calls: frozenset[str] = frozenset()


class VerdictCache:
    """The verdicts of one place. What cannot be read or written is asked for: a cache is a saving, not a proof."""

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
        """Prepare; nothing is read or made.

        Args:
            documents: where they are kept.
            redactor: masks secrets in what is kept.
            ttl_s: seconds for which a verdict is used; None forever.
            now: the time, aware and in UTC.
            stored: returns the digest of a recorded call by its key; None where it is not there.
            reads: False where every judge is to be asked, since the calls are recorded.
            writes: False where the folder is only replayed.
            needs_calls: whether a verdict is of use only as long as all calls are there that it came from.
        """
        self.reads = reads
        self._writes = writes
        self._needs_calls = needs_calls
        self._stored = stored
        self._documents = documents
        self._redactor = redactor
        self._ttl = None if ttl_s is None else timedelta(seconds=ttl_s)
        self._now = now
        self.trouble: str | None = None

    def read(self, key: str) -> KeptVerdict | None:
        """Return a verdict, None when there is none that is of use."""
        content = self._content(key)
        if content is None:
            return None
        try:
            calls: dict[str, str] = from_plain(content["calls"], dict[str, str])
            # No calls are no proof: every verdict that is kept came from at least one.
            unproven = self._needs_calls and not calls
            if unproven or not all(self._fits(call, digest) for call, digest in calls.items()):
                self.trouble = f"{self._documents.place(key)} does not fit its recorded calls; {_AGAIN}"
                return None
            return _verdict(content)
        except (EvaluationError, OverflowError, ValueError, RecursionError, KeyError):
            self.trouble = f"{self._documents.place(key)} is no verdict of this version; delete it"
            return None

    def _fits(self, call: str, digest: str) -> bool:
        found = self._stored(call)
        # Of a cache the calls may be gone before the verdict.
        return found == digest or (found is None and not self._needs_calls)

    @property
    def empty(self) -> bool:
        """Whether there are none."""
        try:
            return self._documents.empty
        except OSError:
            return False

    def close(self) -> None:
        """Bring what was kept into order."""
        self._documents.close()

    def write(self, key: str, verdict: KeptVerdict) -> None:
        """Keep a verdict."""
        result, usage = verdict.result, verdict.usage
        self._write(
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
                # A call that is not there has a digest that fits no recorded call.
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
        """Return the steps that a judge wrote for a G-Eval, None when they are not known."""
        content = self._content(key)
        steps = None if content is None else content.get("steps")
        if not isinstance(steps, list) or not steps or not all(isinstance(step, str) for step in steps):
            return None
        return tuple(steps)

    def write_steps(self, key: str, steps: tuple[str, ...]) -> None:
        """Keep the steps that a judge wrote."""
        self._write(key, {"steps": list(steps)})

    def _content(self, key: str) -> dict[str, Any] | None:
        if not self.reads:
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
                self.trouble = f"{self._documents.place(key)} is not as it was written; {_AGAIN}"
                return None
            fresh = self._ttl is None or self._now() - at < self._ttl
        except OSError as error:
            self.trouble = f"{self._documents.place(key)} cannot be read: {error.strerror or type(error).__name__}"
            return None
        except DamagedError as error:
            self.trouble = f"{error.place} is no verdict of this version; delete it"
            return None
        except (ForeignError, ValueError, KeyError, TypeError):
            self.trouble = f"{self._documents.place(key)} is no verdict of this version; delete it"
            return None
        return document if fresh else None

    def _write(self, key: str, content: dict[str, Any]) -> None:
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
            # What JSON cannot hold would come back as something else.
            return
        try:
            self._documents.write(key, text)
        except OSError as error:
            place = self._documents.place(key)
            self.trouble = f"{place} cannot be written: {error.strerror or type(error).__name__}"


def _seal(document: Mapping[str, Any]) -> str:
    """Return the digest of a document that has no seal yet, wherever it is kept.

    Raises:
        TypeError: JSON cannot hold it.
        ValueError: likewise.
    """
    bare = {name: value for name, value in document.items() if name != "key"}
    text = json.dumps(bare, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


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


class _Kept(Struct):
    """The form of a document."""

    result: _Result
    duration_ms: Amount
    usage: _Usage


def _verdict(content: Mapping[str, Any]) -> KeptVerdict:
    kept = from_plain(content, _Kept)
    return KeptVerdict(EvaluationResult(**asdict(kept.result)), kept.duration_ms, Usage(**asdict(kept.usage)))
