"""Compares the closures of a run and its base: the grading code, the evidence and the surroundings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holodeck_action.decide.terms_changes import TermsChange, join_phrases, plain_name
from holodeck_action.record.closure import Closure
from holodeck_action.record.record import Record

_FILES_NAMED = 5
_GRADERS_NAMED = 3
_TRANSCRIPT = "recorded:"
"""Start of the description of a target whose answers are in a file."""
_UNKNOWN = TermsChange(
    "unknown",
    "has code that grades, recordings or files of cases, which the base's record does not have",
    (),
    "grading code",
)


def closure_changes(base_record: Record, head_record: Record, *, same_answers: bool) -> Iterator[TermsChange]:
    """Yield the changes of grading code, evidence and surroundings.

    Args:
        base_record: the record of the base.
        head_record: the record of the run.
        same_answers: whether an option of the command line chose what answers on both sides.
    """
    targets = [record.provenance.target for record in (base_record, head_record)]
    if not same_answers and [target.startswith(_TRANSCRIPT) for target in targets] == [False, True]:
        said = f"takes answers from a transcript instead of {plain_name(targets[0])}"
        yield TermsChange("changed", said, (), "evidence")
    base, head = base_record.run.closure, head_record.run.closure
    if head is None:
        return
    if base is None:
        if head.code or head.answers or head.attached:
            yield _UNKNOWN
        return
    yield from _code_changes(base, head)
    edited = sorted(name for name, digest in head.attached.items() if base.attached.get(name, digest) != digest)
    if edited:
        listed = _listed([plain_name(name) for name in edited], _FILES_NAMED)
        yield TermsChange("changed", f"changes files of cases ({listed})", (), "questions")
    if not same_answers:
        yield from _evidence_changes(base, head)
    yield from _surroundings_changes(base, head)


def _code_changes(base: Closure, head: Closure) -> Iterator[TermsChange]:
    now = {**head.unused, **head.code}
    # A file that only the run has used may be new, or may hide one of an installed package.
    changed = [name for name, digest in now.items() if name not in base.code or base.code[name] != digest]
    changed += [name for name in base.code if name not in now]
    if not changed:
        return
    files = {**base.graders, **head.graders}
    modules = set(files.values())
    graders = [name for name, file in files.items() if file in changed or len(modules) == 1]
    # The files of graders first, because they name what changed.
    ordered = sorted(changed, key=lambda name: (name not in modules, name))
    listed = _listed([_file_text(name, shared=name in head.shared) for name in ordered], _FILES_NAMED)
    names = join_phrases([plain_name(name.rpartition(":")[2]) for name in graders[:_GRADERS_NAMED]])
    more = len(graders) - _GRADERS_NAMED
    whose = (
        f"the code of {names}" + (f" and {more} more graders" if more > 0 else "") if graders else "code that grades"
    )
    yield TermsChange("changed", f"changes {whose} ({listed})", (), "grading code")


def _file_text(name: str, *, shared: bool) -> str:
    return f"{plain_name(name)}, which the target imports too" if shared else plain_name(name)


def _listed(texts: Sequence[str], most: int) -> str:
    more = len(texts) - most
    return ", ".join(texts[:most]) + (f" and {more} more files" if more > 0 else "")


def _evidence_changes(base: Closure, head: Closure) -> Iterator[TermsChange]:
    if not head.answers:
        return
    where = "" if head.answers_source is None else f" at {head.answers_source.short}"
    if head.answers != base.answers:
        before = f"those in {plain_name(base.answers)}" if base.answers else "calling models"
        said = f"takes answers from the recordings in {plain_name(head.answers)} instead of {before}{where}"
        yield TermsChange("changed", said, (), "evidence")
        return
    both = {**base.evidence, **head.evidence}
    changed = sorted(name for name in both if base.evidence.get(name) != head.evidence.get(name))
    if changed:
        listed = _listed([plain_name(name) for name in changed], _FILES_NAMED)
        yield TermsChange("changed", f"changes the recordings that answer ({listed})", (), "evidence")


def _surroundings_changes(base: Closure, head: Closure) -> Iterator[TermsChange]:
    for name, now in head.surroundings.items():
        before = base.surroundings.get(name)
        if before is not None and before != now:
            said = f"runs with {name} {plain_name(now)} instead of {plain_name(before)}"
            yield TermsChange("noted", said, (), "surroundings")
