"""Shards divide a run's cases among parallel jobs. Every job computes the same division.

`holodeck_action.record.merging` joins the records of all shards.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.record.facts import Known
from holodeck_action.record.record import Record, Shard
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.values import Case
from holodeck_action.text.lazy_patterns import lazy_pattern

_WRITTEN = lazy_pattern(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
_COUNTED = lazy_pattern(r"auto/([1-9][0-9]{0,5})")


class JobArray(Struct, frozen=True):
    """The environment variables in which a CI system numbers parallel jobs.

    Attributes:
        system: name of the CI system.
        index: name of the variable with the number of the job.
        first: number of the first job, or the name of a variable with this number.
        count: name of the variable with the number of jobs; empty if the system has no such variable.
    """

    system: str
    index: str
    first: int | str
    count: str


JOB_ARRAYS = (
    JobArray("GitLab", "CI_NODE_INDEX", 1, "CI_NODE_TOTAL"),
    JobArray("CircleCI", "CIRCLE_NODE_INDEX", 0, "CIRCLE_NODE_TOTAL"),
    JobArray("Buildkite", "BUILDKITE_PARALLEL_JOB", 0, "BUILDKITE_PARALLEL_JOB_COUNT"),
    JobArray("Azure Pipelines", "SYSTEM_JOBPOSITIONINPHASE", 1, "SYSTEM_TOTALJOBSINPHASE"),
    JobArray("AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX", 0, "AWS_BATCH_JOB_ARRAY_SIZE"),
    JobArray("Slurm", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_TASK_MIN", "SLURM_ARRAY_TASK_COUNT"),
    JobArray("Kubernetes", "JOB_COMPLETION_INDEX", 0, ""),
)
"""Systems that `--shard auto` supports; sources: their documentation."""


def parse_shard(text: str, environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of a shard, from 1, and the number of shards.

    Args:
        text: `I/N`, `auto`, or `auto/N`.
        environ: the job's environment variables.

    Raises:
        ConfigurationError: the variables of no CI system or of several are set, or their values are invalid.
    """
    written = _WRITTEN.fullmatch(text)
    if written is not None:
        return int(written[1]), int(written[2])
    counted = _COUNTED.fullmatch(text)
    found = [array for array in JOB_ARRAYS if environ.get(array.index, "").strip()]
    if len(found) != 1:
        systems = ", ".join(array.system for array in found or JOB_ARRAYS)
        there = "the variables of several systems are set" if found else "this is not a parallel job of a known system"
        raise ConfigurationError([f"--shard {text}: {there} ({systems}); give --shard I/N, such as 1/4"])
    array = found[0]
    first = array.first if isinstance(array.first, int) else _read_number(array, array.first, environ)
    number = _read_number(array, array.index, environ) - first + 1
    if counted is not None:
        count = int(counted[1])
    elif array.count:
        count = _read_number(array, array.count, environ)
    else:
        raise ConfigurationError(
            [f"--shard auto: {array.system} does not report the number of jobs; give --shard auto/N"]
        )
    if not 1 <= number <= count:
        raise ConfigurationError(
            [f"--shard {text}: {array.system} reports that this is job {number} of {count}; give --shard I/N"]
        )
    return number, count


def _read_number(array: JobArray, name: str, environ: Mapping[str, str]) -> int:
    text = environ.get(name, "").strip()
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigurationError(
            [f"--shard: {name} of {array.system} is {text[:40]!r}, which is not a whole number; give --shard I/N"]
        )
    return int(text)


class Durations(Struct, frozen=True):
    """Durations of an earlier run's cases in ms, by case id and content hash; `digest` is empty if there are none."""

    by_case: Mapping[tuple[str, str], float]
    digest: str


def durations_of(record: Record) -> Durations:
    """Return the durations of an earlier run's cases: the mean over a case's trials, if known."""
    found: dict[tuple[str, str], float] = {}
    for case in record.cases:
        spent = [took.value for trial in case.trials if isinstance(took := trial.took_ms, Known)]
        if spent:
            found[case.id, case.content_hash] = sum(spent) / len(spent)
    digest = hashlib.sha256()
    for (case_id, content), duration in sorted(found.items()):
        digest.update(f"{case_id} {content} {duration!r}\n".encode("utf-8", "surrogatepass"))
    return Durations(found, digest.hexdigest() if found else "")


class Part(Struct, frozen=True):
    """The ids of the cases that a shard runs, and the shard's description for the record."""

    ids: frozenset[str]
    shard: Shard


def choose_part(cases: Sequence[Case], number: int, count: int, durations: Durations | None) -> Part:
    """Choose the cases that a shard runs.

    Cases are assigned from the longest to the shortest, each to the shard with the smallest load so far (Graham's LPT
    rule); cases of equal duration are ordered by a hash of their ids. The result does not depend on the order of the
    cases.

    Args:
        cases: all cases of the run.
        number: number of the shard, from 1.
        count: number of shards.
        durations: durations of the cases; None if they are not known.
    """
    # Imported late: only shards need it.
    from statistics import median

    known = {} if durations is None else durations.by_case
    times = {case.id: known.get((case.id, case.content_hash)) for case in cases}
    told = [time for time in times.values() if time is not None]
    usual = median(told) if told else 1.0
    loads = {case.id: case.repeat * (usual if times[case.id] is None else times[case.id] or 0.0) for case in cases}
    mine: list[str] = []
    least = [(0.0, 0, shard) for shard in range(1, count + 1)]
    for case_id in sorted(loads, key=lambda found: (-loads[found], _hash_order(found))):
        load, taken, shard = heapq.heappop(least)
        heapq.heappush(least, (load + loads[case_id], taken + 1, shard))
        if shard == number:
            mine.append(case_id)
    split = "" if durations is None else durations.digest
    return Part(frozenset(mine), Shard(number, count, len(mine), split, conditions=0))


def _hash_order(case_id: str) -> bytes:
    return hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()
