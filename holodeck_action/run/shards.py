"""A run in parts: which cases each of several jobs runs, the same in every job.

`holodeck_action.record.merging` puts the records of all parts together.
"""

from __future__ import annotations

import hashlib
import heapq
import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from holodeck_action.record.facts import Known
from holodeck_action.record.record import Record, Shard
from holodeck_action.suite.values import Case

_WRITTEN = re.compile(r"([1-9][0-9]{0,5})/([1-9][0-9]{0,5})")
_COUNTED = re.compile(r"auto/([1-9][0-9]{0,5})")


class ShardError(Exception):
    """A shard cannot be told; the message is one sentence with the way out."""


class JobArray(Struct, frozen=True):
    """How a system tells its parallel jobs apart.

    Attributes:
        system: its name.
        index: the variable with the number of a job.
        first: that of the first job, or the variable that holds it.
        count: the variable with the number of jobs; empty where the system has none.
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
"""Systems whose jobs `--shard auto` knows, as their documentation names the variables."""


def numbered(text: str, environ: Mapping[str, str]) -> tuple[int, int]:
    """Return the number of a shard, from 1, and of how many.

    Args:
        text: `I/N`, `auto`, or `auto/N`.
        environ: the job's.

    Raises:
        ShardError: this is no job of a system that tells, or of several.
    """
    written = _WRITTEN.fullmatch(text)
    if written is not None:
        return int(written[1]), int(written[2])
    counted = _COUNTED.fullmatch(text)
    found = [array for array in JOB_ARRAYS if environ.get(array.index, "").strip()]
    if len(found) != 1:
        systems = ", ".join(array.system for array in found or JOB_ARRAYS)
        there = "the variables of several systems are set" if found else "this is no parallel job of a known system"
        raise ShardError(f"--shard {text}: {there} ({systems}); give --shard I/N, such as 1/4")
    array = found[0]
    first = array.first if isinstance(array.first, int) else _number(array, array.first, environ)
    number = _number(array, array.index, environ) - first + 1
    if counted is not None:
        count = int(counted[1])
    elif array.count:
        count = _number(array, array.count, environ)
    else:
        raise ShardError(f"--shard auto: {array.system} does not tell how many jobs there are; give --shard auto/N")
    if not 1 <= number <= count:
        raise ShardError(f"--shard {text}: {array.system} says that this is job {number} of {count}; give --shard I/N")
    return number, count


def _number(array: JobArray, name: str, environ: Mapping[str, str]) -> int:
    text = environ.get(name, "").strip()
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ShardError(f"--shard: {name} of {array.system} is {text[:40]!r}, no whole number; give --shard I/N")
    return int(text)


class Durations(Struct, frozen=True):
    """How long cases took in an earlier run, in milliseconds by id and content; `digest` tells them from others."""

    of: Mapping[tuple[str, str], float]
    digest: str


def durations_of(record: Record) -> Durations:
    """Return how long the cases of an earlier run took: the mean of their trials."""
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
    """The cases of a suite that a shard runs, by id, and what the record says of the shard."""

    ids: frozenset[str]
    shard: Shard


def part_of(cases: Sequence[Case], number: int, count: int, durations: Durations | None) -> Part:
    """Return the part of a shard.

    The case that takes longest goes first, each to the shard that has least to do (Graham's LPT rule), and cases that
    take as long in an order that only their ids decide. So every job finds the same parts, in whatever order the cases
    stand.

    Args:
        cases: all that are run.
        number: of the shard, from 1.
        count: of the shards.
        durations: how long each took; None where that is not known.
    """
    # Only shards pay for it.
    from statistics import median

    known = {} if durations is None else durations.of
    times = {case.id: known.get((case.id, case.content_hash)) for case in cases}
    told = [time for time in times.values() if time is not None]
    usual = median(told) if told else 1.0
    loads = {case.id: case.repeat * (usual if times[case.id] is None else times[case.id] or 0.0) for case in cases}
    mine: list[str] = []
    least = [(0.0, 0, shard) for shard in range(1, count + 1)]
    for case_id in sorted(loads, key=lambda found: (-loads[found], _order(found))):
        load, taken, shard = heapq.heappop(least)
        heapq.heappush(least, (load + loads[case_id], taken + 1, shard))
        if shard == number:
            mine.append(case_id)
    split = "" if durations is None else durations.digest
    return Part(frozenset(mine), Shard(number, count, len(mine), split, conditions=0))


def _order(case_id: str) -> bytes:
    return hashlib.sha256(case_id.encode("utf-8", "surrogatepass")).digest()
