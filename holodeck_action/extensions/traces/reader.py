"""Reads conversations from trace files with bounded memory."""

from __future__ import annotations

import hashlib
import tempfile
import weakref
from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.traces.conversations import MOST_ATTRIBUTES, TraceConversation, TraceTurn
from holodeck_action.extensions.traces.exported_spans import Score
from holodeck_action.extensions.traces.trace_files import MOST_UNREAD, read_parts
from holodeck_action.extensions.traces.turns import (
    Observation,
    ReadTrace,
    matters,
    observe,
    read_trace,
    short_attributes,
)
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.suite.checkout import MOST_TRANSCRIPT, Checkout
from holodeck_action.text.foreign import RefusedFileError
from holodeck_action.text.lazy_patterns import lazy_pattern

MOST_SPANS = 5_000_000
"""Maximum number of spans in all files."""
MOST_TRACE_SPANS = 10_000
"""Maximum number of spans to read per trace."""
MOST_TRACE_BYTES = 16_000_000
"""Maximum size of a trace in the temporary file, in bytes."""
MOST_SCORES = 100_000
"""Maximum number of scores and annotations to read."""
MOST_TURNS = 1_000
"""Maximum number of turns to read per conversation."""
_NOTICES = 10
_ROOTS = 100
"""Maximum number of roots that are read of a trace beyond its limits."""
_ID = lazy_pattern(r"[^\W_][\w.:/-]{0,79}")
_TRACE_ID = lazy_pattern(r"[0-9a-f]{32}")
_SKIPPED = frozenset((".md", ".gz", ".zip", ".png", ".html"))


class TraceFiles:
    """The conversations in trace files. The caller must close the object, which deletes its temporary files.

    Spans are stored in an unnamed temporary file, so that the memory needed depends on the number of spans and traces,
    not on their size.

    Attributes:
        notices: notices for the user about unreadable data, one sentence each.
        digest: SHA-256 of the files, in hexadecimal.
    """

    def __init__(self, paths: Sequence[str], checkout: Checkout) -> None:
        """Read trace files, and all files in the given folders.

        Args:
            paths: files and folders, relative to the folder of `checkout`.
            checkout: the files that may be read.

        Raises:
            TargetError: a file is missing or cannot be read, or no file contains a conversation.
        """
        self.notices: tuple[str, ...] = ()
        self._spans = _Spool(Observation)
        self._turns = _Spool(TraceTurn)
        self._traces: dict[str, int] = {}
        self._previous = array("q")
        self._unread: set[str] = set()
        self._scores: dict[tuple[str, str], dict[str, Any]] = {}
        self._score_count = 0
        self._digest = hashlib.sha256()
        self._problems: list[str] = []
        self._problem_count = 0
        self._sessions: dict[tuple[bool, str], list[tuple[int, str, int]]] = {}
        try:
            for path in paths:
                for name in _files_of(path, checkout):
                    self._read_file(name, checkout)
            self._group_traces()
        except BaseException:
            self.close()
            raise
        finally:
            self._spans.close()
        self.digest = self._digest.hexdigest()
        if not self._sessions:
            self.close()
            found = f"{count_phrase(len(self._traces), 'trace')} without them" if self._traces else "no spans"
            expected = "no conversations: expected spans of a model or an agent"
            raise TargetError(f"traces {', '.join(paths)}: {expected}, found {found}{self._first_problem()}")

    def __len__(self) -> int:
        """Return the number of conversations."""
        return len(self._sessions)

    def conversations(self) -> Iterator[TraceConversation]:
        """Yield the conversations, sorted by start; only one at a time is in memory."""
        for key in sorted(self._sessions, key=lambda key: (self._sessions[key][0][0], key)):
            named, name = key
            turns = tuple(self._turns.read(number) for _, _, number in self._sessions[key][:MOST_TURNS])
            yield TraceConversation(_conversation_id(named, name), name if named else None, turns)

    def close(self) -> None:
        """Delete the temporary files."""
        self._spans.close()
        self._turns.close()

    def _read_file(self, name: str, checkout: Checkout) -> None:
        try:
            with checkout.open(name, MOST_TRANSCRIPT) as file:
                while block := file.read(1 << 20):
                    self._digest.update(block)
                file.seek(0)
                for part in read_parts(file):
                    if part.problem:
                        self._add_problem(f"{name}: {part.place} {part.problem}")
                        self._unread |= part.unread_traces
                        if len(self._unread) > MOST_UNREAD:
                            clause = f"spans of more than {MOST_UNREAD:,} traces cannot be read; give fewer files"
                            raise TargetError(f"traces {name}: {clause}{self._first_problem()}")
                    for span in part.spans:
                        self._add(observe(span), name)
                    for score in part.scores:
                        self._add_score(score)
        except FileNotFoundError:
            raise TargetError(f"traces {name}: there is no such file or folder") from None
        except RefusedFileError as error:
            raise TargetError(f"traces {name} {error.clause}") from None
        except OSError as error:
            raise TargetError(f"traces {name} cannot be read: {error.strerror or type(error).__name__}") from None

    def _add(self, observation: Observation, name: str) -> None:
        trace = observation.span.trace
        if len(self._previous) >= MOST_SPANS:
            raise TargetError(f"traces {name}: more than {MOST_SPANS:,} spans; give fewer files")
        try:
            number = self._spans.add(observation)
        except OverflowError:
            self._add_problem(f"{name}: a span has a number that is too large")
            self._unread.add(trace)
            return
        self._previous.append(self._traces.get(trace, -1))
        self._traces[trace] = number

    def _add_score(self, score: Score) -> None:
        self._score_count += 1
        held = self._scores.setdefault((score.kind, score.id), {}) if self._score_count <= MOST_SCORES else {}
        if len(held) < MOST_ATTRIBUTES:
            held.update(short_attributes(score.attributes))

    def _add_problem(self, sentence: str) -> None:
        self._problem_count += 1
        if len(self._problems) < _NOTICES:
            self._problems.append(sentence)

    def _first_problem(self) -> str:
        return f"; {self._problems[0]}" if self._problems else ""

    def _group_traces(self) -> None:
        others = ambiguous = 0
        for trace, last in self._traces.items():
            read = self._read_trace(trace, last)
            if read is None:
                others += 1
                continue
            ambiguous += read.several_sessions
            key = (True, read.session) if read.session is not None else (False, trace)
            place = (read.turn.start_ns, trace, self._turns.add(read.turn))
            self._sessions.setdefault(key, []).append(place)
        longer = 0
        for places in self._sessions.values():
            places.sort()
            longer += len(places) > MOST_TURNS
        notices = [f"traces: {problem}" for problem in self._problems]
        if self._problem_count > len(self._problems):
            more = count_phrase(self._problem_count - len(self._problems), "more part")
            notices.append(f"traces: {more} could not be read")
        if others:
            notices.append(f"traces: {count_phrase(others, 'trace')} without a span of a model or an agent: left out")
        if ambiguous:
            found = count_phrase(ambiguous, "trace")
            notices.append(f"traces: {found} with several sessions: each such trace is a conversation by itself")
        if self._score_count > MOST_SCORES:
            notices.append(f"traces: more than {MOST_SCORES:,} scores and annotations: the rest is not read")
        if longer:
            found = count_phrase(longer, "conversation")
            notices.append(f"traces: {found} with more than {MOST_TURNS:,} turns: the rest is not read")
        self.notices = tuple(notices)

    def _read_trace(self, trace: str, last_position: int) -> ReadTrace | None:
        found, complete = self._read_spans(last_position)
        read = read_trace(trace, found[::-1], complete=complete and trace not in self._unread)
        if read is None or not self._scores:
            return read
        scored = [("span", each.span.id) for each in found]
        scored += [("trace", trace), ("session", read.session or "")]
        scores = {name: value for key in scored for name, value in self._scores.get(key, {}).items()}
        return replace(read, turn=replace(read.turn, attributes={**read.turn.attributes, **scores}))

    def _read_spans(self, last_position: int) -> tuple[list[Observation], bool]:
        """Return the spans of a trace, and whether these are all.

        Of a trace with too many spans, these are the roots, and spans of models, agents and tools, the latest ones
        first.
        """
        found, at = self._read_back(last_position, lambda _: True, stop=True)
        if at < 0:
            return found, True
        return self._read_back(last_position, lambda each: each.span.parent is None or matters(each), stop=False)[
            0
        ], False

    def _read_back(
        self, at: int, is_wanted: Callable[[Observation], bool], *, stop: bool
    ) -> tuple[list[Observation], int]:
        """Read spans of a trace from the last one back; return them with the position of the next one, or -1.

        Beyond the limits, the reading stops, or only roots are read.
        """
        found: list[Observation] = []
        size = roots = 0
        while at >= 0:
            is_full = len(found) >= MOST_TRACE_SPANS or size >= MOST_TRACE_BYTES
            if is_full and stop:
                break
            each = self._spans.read(at)
            is_root = each.span.parent is None and roots < _ROOTS
            if (is_wanted(each) and not is_full) or is_root:
                found.append(each)
                size += self._spans.size(at)
                roots += is_root
            at = self._previous[at]
        return found, at


def _files_of(path: str, checkout: Checkout) -> Iterator[str]:
    """Yield a file, or the files in a folder and its subfolders, sorted by name; hidden files are left out.

    Raises:
        TargetError: the folder cannot be read, or contains no files.
    """
    if not (checkout.folder / path).is_dir():
        yield path
        return
    try:
        found = checkout.matching_files(f"{path}/**/*")
    except OSError as error:
        clause = error.clause if isinstance(error, RefusedFileError) else f"cannot be read: {error.strerror}"
        raise TargetError(f"traces {path} {clause}") from None
    names = [each for each in found if each.suffix.lower() not in _SKIPPED]
    if not names:
        raise TargetError(f"traces {path}: the folder has no files of traces")
    for name in names:
        yield (Path(path) / name.relative_to(checkout.folder / path)).as_posix()


def _conversation_id(is_named: bool, name: str) -> str:
    """Return the id of a conversation: its name, or a digest if the name is not a valid, unambiguous id."""
    if _ID.fullmatch(name) and not (is_named and (_TRACE_ID.fullmatch(name) or name.startswith("session-"))):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return f"{'session' if is_named else 'trace'}-{digest}"


class _Spool:
    """Stores values of one type in an unnamed temporary file."""

    def __init__(self, kind: Any) -> None:
        self._scope = ExitStack()
        self._file = self._scope.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        weakref.finalize(self, self._scope.close)
        self._encoder, self._decoder = msgspec.msgpack.Encoder(), msgspec.msgpack.Decoder(kind)
        self._ends = array("Q", [0])

    def add(self, value: Any) -> int:
        """Append a value; return its index, from 0."""
        data = self._encoder.encode(value)
        self._file.seek(self._ends[-1])
        self._file.write(data)
        self._ends.append(self._ends[-1] + len(data))
        return len(self._ends) - 2

    def size(self, number: int) -> int:
        """Return the stored size, in bytes, of the value at an index."""
        return self._ends[number + 1] - self._ends[number]

    def read(self, number: int) -> Any:
        """Return the value at an index."""
        self._file.seek(self._ends[number])
        return self._decoder.decode(self._file.read(self.size(number)))

    def close(self) -> None:
        """Delete the file."""
        self._scope.close()
