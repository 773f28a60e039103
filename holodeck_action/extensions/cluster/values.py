"""Messages between coordinator and workers. Dask sends them, but this module does not import Dask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holodeck_action.llm.limits.budget import Amount
from holodeck_action.llm.wire import Counts
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.options.settings import Settings
from holodeck_action.scoring.exam_results import NO_EXAMS, Exams
from holodeck_action.workers.permission import CodeAllowed

REPORT_TOPIC = "holodeck-action"
"""Topic of the scheduler under which workers report."""


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """The data of a run that a worker needs.

    Attributes:
        id: unique id of the run.
        suite: path of agent.yaml from the root of the checkout.
        cwd: path of the working folder from the root of the checkout.
        flags: the options of the command, without those that only the coordinator uses.
        settings: the coordinator's settings, which replace those of the worker's environment.
        environ: environment variables to set on workers.
        identity: parts of the suite's identity that must be equal on workers (`run.identity.run_identity`).
        code: the permission to run the suite's code, as granted on the coordinator.
        budget_unit: unit in which workers count their spending; None if there are no budgets.
        files_digest: SHA-256 in hex of the packed files of the checkout.
        sharers: number of workers of the run, which share the limits of its accounts.
        exams: the results of the judges' probes, which the coordinator makes.
    """

    id: str
    suite: str
    cwd: str
    flags: Flags
    settings: Settings
    environ: Mapping[str, str] = field(repr=False)
    identity: Mapping[str, Any]
    code: CodeAllowed
    budget_unit: Literal["tokens", "dollars"] | None
    files_digest: str
    sharers: int = 1
    exams: Exams = NO_EXAMS

    @property
    def name(self) -> str:
        """Name of the run's session on workers."""
        return f"holodeck-action-{self.id}"


class RemoteTrial(Struct, frozen=True):
    """A trial that a worker has finished, and the worker's totals since its last report; sent as JSON.

    Attributes:
        trial: the trial, with secrets masked.
        calls: totals of model calls.
        spent: amount spent, in the unit of the budgets.
        imported: newly imported files of the suite's code with their digests (`run.used_files.UsedFiles`).
        used: files that grading code has used since, with their digests (`run.used_files.UsedFiles`).
    """

    trial: TrialRecord
    calls: Counts = msgspec.field(default_factory=Counts)
    spent: Amount = msgspec.field(default_factory=lambda: Amount(0))
    imported: Mapping[str, str | None] = {}
    used: Mapping[str, str | None] = {}
