"""Implements `cases from-traces`."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.decide.number_texts import count_phrase
from holodeck_action.extensions.importers.converted_suite import ConvertedCase
from holodeck_action.extensions.trace_cases.candidates import Candidate, Candidates, choose, collect, key_of
from holodeck_action.extensions.trace_cases.conditions import REASONS
from holodeck_action.extensions.trace_cases.masking import Masker
from holodeck_action.extensions.trace_cases.vectors import (
    embedding_plan,
    farthest_first,
    model_vectors,
    text_vectors,
)
from holodeck_action.extensions.trace_cases.writing import CaseWriter, file_text, loadable
from holodeck_action.extensions.traces.reader import TraceFiles
from holodeck_action.llm.errors import ModelCallError
from holodeck_action.record.agent_errors import TargetError
from holodeck_action.record.disk import make_folder, write_atomically
from holodeck_action.run.caller import Caller
from holodeck_action.run.loading import LoadedSuite, load_one_suite, redactor_of_loaded
from holodeck_action.run.options.request import flags_from
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_COMPARED = 2_000
"""Maximum number of conversations, and of cases, to compare; from larger numbers a random sample is compared."""
_MOST_NAMES = 100_000
_LISTED = 5
NO_ANONYMISATION = "this is no anonymisation: read every case before you commit it"


def write_cases(values: Mapping[str, Any], caller: Caller) -> int:
    """Choose conversations in traces, mask them, and write them as cases.

    Args:
        values: the values of the command line by option.
        caller: receives the counts of written, masked and omitted data on standard output, and notices on standard
            error.

    Returns:
        0, or 3 if the embedding model gave no answer.

    Raises:
        ConfigurationError: a file cannot be used, the output file exists, or no conversation is left.
    """
    output: GivenPath = values["output"]
    if os.path.lexists(output):
        raise ConfigurationError([f"{output}: already exists, and nothing was written; give another file with -o"])
    loaded = _load_suite(values, caller)
    redactor = redactor_of_loaded([] if loaded is None else [loaded], caller.environ)
    names = _read_names(values["names"])
    existing = () if loaded is None else loaded.suite.cases
    reasons = _wanted_reasons(values)
    plan = embedding_plan(loaded) if values["embed"] else None

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        return text_vectors(texts) if plan is None else model_vectors(texts, plan, redactor, values["max_tokens"])

    mask = Masker(redactor, names).mask
    try:
        traces = TraceFiles(values["files"], Checkout.unbounded(caller.cwd))
    except TargetError as error:
        raise ConfigurationError([redactor.text(str(error))]) from None
    try:
        caller.note(*map(redactor.text, traces.notices))
        texts = [[mask(turn.input) for turn in case.turns] for case in existing]
        cases = {key_of(inputs): case.name or case.id for case, inputs in zip(existing, texts, strict=True)}
        candidates = collect(
            traces.conversations(), cases, mask, values["thumbs_down"], values["low_score"], values["seed"]
        )
        known_texts = ["\n".join(inputs) for inputs in texts[:MOST_COMPARED]]
        chosen = choose(
            candidates.found.values(),
            reasons,
            values["limit"],
            lambda ordered: _most_unlike(ordered, known_texts, values["limit"], vectors),
        )
        masker = Masker(redactor, names)
        written, refused = _write(traces, chosen, masker, existing, accept=values["accept"])
    except ModelCallError as error:
        caller.stderr.write(f"error: {one_line(redactor.text(error.message), 1000)}; nothing was written\n")
        return ExitCode.INCOMPLETE
    finally:
        traces.close()
    _deliver(output, values["files"], written, masker, redactor)
    lines = [*_summary(output, chosen, written, candidates, masker), *_skipped(candidates, refused)]
    suite = shlex.quote(values["suite"] or "agent.yaml")
    lines += ["next:", f"  read {output}, and decide where a comment says so"]
    lines += [f"  name it in a suite, as test_cases_file: {output}", f"  holodeck-action validate {suite}"]
    caller.stdout.writelines(f"{one_line(redactor.text(line), 2000) if line[0] != ' ' else line}\n" for line in lines)
    return ExitCode.PASSED


def _load_suite(values: Mapping[str, Any], caller: Caller) -> LoadedSuite | None:
    if values["suite"] is None:
        return None
    # Its first cases may be those that are written now.
    context = caller.suite_context(flags_from({**values, "allow_empty": True}))
    return load_one_suite(values["suite"], context, "cases from-traces compares with a single suite; give one path")


def _wanted_reasons(values: Mapping[str, Any]) -> Sequence[str]:
    """Return the reasons for which conversations are picked.

    Raises:
        ConfigurationError: the attribute of a reason is missing.
    """
    needed = {"thumbs-down": "--thumbs-down ATTRIBUTE=VALUE", "low-scores": "--low-score ATTRIBUTE=NUMBER"}
    given_of = {"thumbs-down": values["thumbs_down"], "low-scores": values["low_score"]}
    missing = [reason for reason in values["pick"] if reason in needed and not given_of[reason]]
    if missing:
        raise ConfigurationError(
            [f"--pick {reason} needs {needed[reason]}, the attribute to look for" for reason in missing]
        )
    return values["pick"] or [*REASONS]


def _read_names(file: GivenPath | None) -> list[str]:
    if file is None:
        return []
    try:
        names = [line.strip() for line in read_file(file).text().splitlines() if line.strip()]
    except ForeignError as error:
        raise ConfigurationError([f"{file}: {error}"]) from None
    except OSError as error:
        raise ConfigurationError([f"{file}: cannot be read: {error.strerror or error}"]) from None
    if len(names) > _MOST_NAMES:
        raise ConfigurationError([f"{file}: has more than {_MOST_NAMES:,} names; give fewer"])
    return names


def _most_unlike(
    candidates: Sequence[Candidate],
    known_texts: Sequence[str],
    limit: int,
    vectors: Callable[[Sequence[str]], NDArray[np.float32]],
) -> list[Candidate]:
    some = candidates[:MOST_COMPARED]
    if not some:
        return []
    found = vectors([*(each.text for each in some), *known_texts])
    # As many as are picked: those before may be picked for another reason.
    return [some[at] for at in farthest_first(found[: len(some)], found[len(some) :], limit)]


def _write(
    traces: TraceFiles,
    chosen: Sequence[tuple[Candidate, str]],
    masker: Masker,
    existing: Sequence[Case],
    *,
    accept: bool,
) -> tuple[list[ConvertedCase], list[str]]:
    """Return the cases, sorted by the start of their conversations, and the reasons why others cannot be written."""
    reasons = {candidate.id: reason for candidate, reason in chosen}
    writer = CaseWriter(masker.mask, [case.name for case in existing if case.name], accept=accept)
    return loadable([writer.write(each, reasons[each.id]) for each in traces.conversations() if each.id in reasons])


def _deliver(
    output: GivenPath, sources: Sequence[str], cases: Sequence[ConvertedCase], masker: Masker, redactor: Redactor
) -> None:
    if not cases:
        raise ConfigurationError(
            [f"no conversation of {', '.join(sources)} is left to be written; change --pick, or leave out --suite"]
        )
    head = [
        f"Cases from traces in {', '.join(sources)}, made by holodeck-action cases from-traces.",
        f"Masked: {masker.summary()}; {NO_ANONYMISATION}.",
    ]
    text = file_text(cases, [redactor.text(line) for line in head])
    try:
        make_folder(output.parent)
        write_atomically(output.path, [text.encode()])
    except OSError as error:
        raise ConfigurationError([f"{output}: cannot be written: {error.strerror}; choose another file"]) from None


def _summary(
    output: GivenPath,
    chosen: Sequence[tuple[Candidate, str]],
    written_cases: Sequence[ConvertedCase],
    candidates: Candidates,
    masker: Masker,
) -> list[str]:
    counts = Counter(reason for _, reason in chosen)
    why = ", ".join(f"{counts[reason]} for {text}" for reason, text in REASONS.items() if counts[reason])
    total = count_phrase(candidates.total, "conversation")
    return [
        f"wrote {count_phrase(len(written_cases), 'case')} of {total} to {output}: {why}",
        f"masked {masker.summary()}; {NO_ANONYMISATION}",
    ]


def _skipped(candidates: Candidates, refused: Sequence[str]) -> list[str]:
    lines = []
    if candidates.existing:
        total = count_phrase(sum(candidates.existing.values()), "conversation")
        named = ", ".join(f"{name} ({count})" for name, count in candidates.existing.most_common(_LISTED))
        more = f" and {len(candidates.existing) - _LISTED} more" if len(candidates.existing) > _LISTED else ""
        lines.append(f"skipped {total} whose inputs are in the suite already: {named}{more}")
    for count, reason in (
        (candidates.repeated, "with the same inputs as another conversation"),
        (candidates.unknown, "whose input is unknown or blank"),
        (candidates.long, "whose inputs are too long"),
        (len(refused), "that a suite could not load"),
    ):
        if count:
            lines.append(f"skipped {count_phrase(count, 'conversation')} {reason}")
    return [*lines, *refused[:_LISTED]]
