"""Implements `--target results:PATH`: stored results of another program answer the cases of a suite."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from holodeck_action.extensions.results.evidence import format_names, read_evidence
from holodeck_action.extensions.results.options import TARGET
from holodeck_action.extensions.results.stored import StoredCase, StoredResults, StoredTrial, joined_cases
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.serialization import to_plain
from holodeck_action.suite.identity import canonical_json
from holodeck_action.suite.model.targets import ConversationsTarget
from holodeck_action.suite.values import Case
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import excerpt

_NO_ANSWER = "the results hold no answer"


class ResultsTarget:
    """Stored results that answer a suite.

    Attributes:
        target: the target that gives the answers.
        notices: notices for the user, one sentence each.
        missing_input_message: see `suite.cases.case_files.Conversations`.
    """

    missing_input_message: str | None = None

    def __init__(self, path: str, cwd: Path, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        """Read the files.

        Args:
            path: a file or a glob, relative to `cwd`.
            cwd: absolute path of the current folder.
            options: `accept_stored`, if it is given.
            environ: the environment variables.

        Raises:
            TargetError: a file cannot be used, or is no evidence about this job's commit.
        """
        if not path:
            raise TargetError("results: needs the path of a results file, as in results:out/promptfoo.json")
        found = read_evidence([GivenPath(Path(path), cwd)], options, cwd, environ)
        clause = f"is of no format of the others (known: {format_names()}); for results of this program, use rejudge"
        problems = [*found.problems, *(f"{name}: {clause}" for name in found.unknown)]
        if problems:
            raise TargetError("; ".join(problems))
        by_target: dict[str, list[StoredResults]] = {}
        for file in found.files:
            by_target.setdefault(file.target, []).append(file)
        # Answers of two agents are no trials of one.
        self._cases = [case for files in by_target.values() for case in joined_cases(files)]
        programs = ", ".join(dict.fromkeys(file.program for file in found.files))
        stopped = [file.stopped for file in found.files if file.stopped]
        notices = [notice for file in found.files for notice in file.notices]
        most = max((len(case.trials) for case in self._cases), default=0)
        if most > 1:
            notices.append(f"the results have up to {most} trials of a case; without --repeat, its first ones decide")
        self.notices = (f"the answers are those of results of {programs}; no agent is asked", *stopped, *notices)
        digest = hashlib.sha256(canonical_json(to_plain(self._cases))).hexdigest()
        self.target = ConversationsTarget(path=path, name=TARGET, digest=digest, transcript=self._open_transcript)

    def rows(self) -> None:
        """Return nothing: the suite's cases are kept."""

    def _open_transcript(self, cases: Sequence[Case]) -> BinaryIO:
        """Write the answers to the cases of a suite to a temporary file, and return it.

        Raises:
            TargetError: the results are of no case of the suite.
        """
        file: BinaryIO = tempfile.TemporaryFile()  # noqa: SIM115
        for row in _answers(cases, self._cases):
            file.write(json.dumps(row).encode() + b"\n")
        if cases and not file.tell():
            file.close()
            raise TargetError(f"results: none of the {len(self._cases)} stored results has the input of a case")
        file.seek(0)
        return file


def _answers(cases: Sequence[Case], stored: Sequence[StoredCase]) -> Iterator[dict[str, Any]]:
    """Yield the rows of a transcript: the answers to cases, and an error for each case whose answer is not clear.

    A case without a row has no answer.
    """
    by_input: dict[str, list[StoredCase]] = {}
    by_name: dict[str | None, list[StoredCase]] = {}
    for each in stored:
        for text in {each.question.strip(), *(text.strip() for text in each.inputs)}:
            by_input.setdefault(text, []).append(each)
        by_name.setdefault(each.name, []).append(each)
    for case in cases:
        asked = case.turns[0].input.strip()
        named = [each for name in dict.fromkeys((case.id, case.name)) for each in by_name.get(name, ()) if name]
        found = by_input.get(asked, [])
        if len(found) != 1:
            # Equal questions are told apart by name; a name alone is no evidence of what was asked.
            found = [each for each in named if each in found or (not found and asked in each.question)] or found
        if len(found) == 1:
            yield from ({"case": case.id, "trial": at, **_reply(each)} for at, each in enumerate(found[0].trials))
        elif found:
            names = ", ".join(excerpt(each.name or each.question, 80) for each in found[:5])
            yield _error(case, f"{len(found)} stored results answer this input ({names}); give those of one agent")
        elif named:
            yield _error(case, "the stored result with this name is of another input; run the other program again")


def _error(case: Case, reason: str) -> dict[str, Any]:
    return {"case": case.id, "error": {"message": reason, "kind": "infrastructure"}}


def _reply(trial: StoredTrial) -> dict[str, Any]:
    """Return a trial as a reply of a target; what is unknown is left out."""
    usage = {} if trial.usage is None else to_plain(trial.usage)
    parts = {
        "tool_invocations": None if trial.calls is None else to_plain(trial.calls),
        "usage": {name: value for name, value in usage.items() if value is not None} or None,
        "model": trial.model or None,
        "duration_ms": trial.duration_ms,
        "finish_reason": trial.finish_reason or None,
        "metadata": dict(trial.metadata) or None,
    }
    found = {name: value for name, value in parts.items() if value is not None}
    if trial.error:
        return {**found, "error": {"message": trial.error_line, "kind": "agent"}}
    if trial.answer is None:
        return {**found, "error": {"message": _NO_ANSWER, "kind": "infrastructure"}}
    return {**found, "response": trial.answer}
