"""Implements `--target traces:PATH`: recorded conversations supply the cases of a run and their answers."""

from __future__ import annotations

import json
import os
import tempfile
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.traces.conversations import TraceConversation, TraceTurn
from holodeck_action.extensions.traces.reader import TraceFiles
from holodeck_action.extensions.traces.sampling import Drawn, draw_sample
from holodeck_action.record.agent_errors import AgentError, TargetError
from holodeck_action.run.stages import Stages
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.targets import ConversationsTarget
from holodeck_action.targets.reply import reply_from_mapping
from holodeck_action.text.foreign import regular_file

if TYPE_CHECKING:
    from holodeck_action.run.options.action_inputs import Flags

PREFIX = "traces"
SEED = 1
_UNKNOWN_INPUT = "(the trace does not contain the user's message)"
_CAPTURE = "configure the program to record texts, such as with OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_ANY_SIZE = 1 << 40
_LISTS = ("tool_invocations", "retrieved_chunks", "usage", "model", "duration_ms")


class TraceStages(Stages):
    """Checks the options that sample conversations."""

    def check_flags(self, flags: Flags) -> None:
        """Refuse sampling options if the target is not `traces:PATH`; see `Stages.check_flags`."""
        target, extra = flags.target, flags.extra
        named = "--" + min(extra, default="").replace("_", "-")
        if not isinstance(target, str) or target.partition(":")[0] != PREFIX:
            raise ConfigurationError([f"{named} chooses conversations of --target traces:PATH; give that target"])
        if "sample" not in extra:
            raise ConfigurationError([f"{named} belongs to --sample; give the number of conversations, too"])


class TraceTarget:
    """The conversations in files of traces, or a sample of them.

    Attributes:
        target: the target that gives the answers.
        notices: notices for the user, one sentence each.
        missing_input_message: see `suite.cases.case_files.Conversations`.
    """

    missing_input_message = (
        "needs {}, which conversations of traces do not have; remove the metric, or judge the suite's own cases"
    )

    def __init__(self, path: str, cwd: Path, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        """Read the files, draw the sample, and write the transcript.

        Args:
            path: a file or a folder, relative to `cwd`.
            cwd: absolute path of the current folder.
            options: `sample`, `sample_by` and `sample_seed`, if they are given.
            environ: the environment variables, which have no effect.

        Raises:
            TargetError: the files cannot be read.
        """
        if not path:
            raise TargetError("traces: needs the path of a file or a folder, as in traces:night.jsonl")
        self._scope = ExitStack()
        self._cases = self._scope.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._transcript = self._scope.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        weakref.finalize(self, self._scope.close)
        self._unfit = 0
        files = TraceFiles([path], Checkout.unbounded(cwd))
        try:
            sample = _sample(files, options)
            for conversation, drawn in zip(files.conversations(), sample, strict=True):
                if drawn is not None:
                    self._add(conversation, drawn.weight)
            kept = sum(each is not None for each in sample)
            notices = [*files.notices, f"{count_phrase(kept, 'conversation')} of traces in place of the suite's cases"]
            if kept < len(sample):
                by = options.get("sample_by")
                strata = "" if by is None else f", stratified by {by}"
                notices[-1] = f"a sample of {kept:,} of {len(sample):,} conversations of traces{strata}"
            if self._unfit:
                notices.append(f"traces: data of {count_phrase(self._unfit, 'turn')} do not fit into a reply: ignored")
            digest = files.digest
        finally:
            files.close()
        self._cases.flush()
        self._transcript.flush()
        self.notices = tuple(notices)
        self.target = ConversationsTarget(path=path, name=PREFIX, digest=digest, transcript=self.open_transcript)

    def open_transcript(self, cases: Sequence[Any]) -> BinaryIO:
        """Open another handle to the transcript; the cases of the suite are those of the conversations."""
        return regular_file(os.dup(self._transcript.fileno()), None)

    def rows(self) -> Iterator[bytes]:
        """Yield the cases as lines of JSON."""
        self._cases.seek(0)
        yield from self._cases

    def _add(self, conversation: TraceConversation, weight: float) -> None:
        inputs = [turn.input or _UNKNOWN_INPUT for turn in conversation.turns]
        case: dict[str, Any] = {"id": conversation.id}
        case |= {"input": inputs[0]} if len(inputs) == 1 else {"turns": [{"input": each} for each in inputs]}
        case |= {"tags": list(conversation.tags)} if conversation.tags else {}
        case |= {} if weight == 1.0 else {"weight": weight}
        self._cases.write(_line(case))
        for at, turn in enumerate(conversation.turns):
            place = {"case": conversation.id, "turn": at}
            self._transcript.write(_line({**place, **self._reply(conversation, turn)}))

    def _reply(self, conversation: TraceConversation, turn: TraceTurn) -> dict[str, Any]:
        metadata = {"trace": turn.trace, "start_ns": turn.start_ns}
        metadata |= {} if conversation.session is None else {"session": conversation.session}
        parts: dict[str, Any] = {
            "tool_invocations": turn.tool_calls,
            "retrieved_chunks": turn.retrieved,
            "usage": turn.usage,
            "model": turn.model,
            "duration_ms": turn.duration_ms,
            "metadata": metadata,
        }
        found = {name: value for name, value in parts.items() if value is not None} | _answer(turn)
        try:
            reply_from_mapping(found, max_bytes=_ANY_SIZE)
        except AgentError:
            self._unfit += 1
            return {name: value for name, value in found.items() if name not in _LISTS}
        return found


def _answer(turn: TraceTurn) -> dict[str, Any]:
    if turn.error is not None:
        return {"error": {"message": turn.error or "the trace reports an error", "kind": "agent"}}
    for known, what in ((turn.input, "the user's message"), (turn.output, "the answer")):
        if known is None:
            return {"error": {"message": f"the trace holds no text of {what}; {_CAPTURE}", "kind": "infrastructure"}}
    return {"response": turn.output}


def _sample(traces: TraceFiles, options: Mapping[str, Any]) -> list[Drawn | None]:
    """Return, for each conversation, its position and weight in the sample; None if it is not in the sample."""
    size, by = options.get("sample"), options.get("sample_by")
    if size is None:
        return [Drawn(position, 1.0) for position in range(len(traces))]
    listed = [_names(each, by) for each in traces.conversations()]
    found: list[Drawn | None] = [None] * len(listed)
    for drawn in draw_sample(listed, int(size), int(options.get("sample_seed", SEED))):
        found[drawn.position] = drawn
    return found


def _names(conversation: TraceConversation, group_attribute: str | None) -> tuple[str, ...]:
    found = {"model": conversation.models, "tag": conversation.tags, "tool": conversation.tools}
    return () if group_attribute is None else found[group_attribute]


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value).encode() + b"\n"


def _whole(text: str, least: int) -> str:
    """Return a whole number unchanged if it is at least `least`; raise ValueError otherwise."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) < least:
        raise ValueError
    return text


read_size, read_seed = partial(_whole, least=1), partial(_whole, least=0)


def read_strata(text: str) -> str:
    """Return the name of the property by which a sample is stratified, unchanged if it is valid.

    Raises:
        ValueError: the name is not an allowed value.
    """
    if text not in ("model", "tag", "tool"):
        raise ValueError
    return text
