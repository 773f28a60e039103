"""What coordinator and workers tell each other. Dask sends it; nothing here needs Dask."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec
from msgspec import Struct

from holodeck_action.llm.limits.budget import Amount
from holodeck_action.llm.wire import Counts
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.settings import Flags, Settings
from holodeck_action.workers.permission import CodeAllowed

REPORTS = "holodeck-action"
"""Topic of the scheduler under which workers report."""


@dataclass(frozen=True, slots=True)
class RemoteRun:
    """A run of one suite, as a worker must know it.

    Attributes:
        id: tells runs apart.
        suite: path of agent.yaml from the root of the checkout.
        cwd: path of the working folder from there.
        flags: that choose cases and target.
        settings: the coordinator's, whatever the worker's environment says.
        requirements: see `Surroundings`.
        plain_http: see `Allowed`.
        environ: variables that workers are given.
        identity: what the suite must be there, too (`runner.identity.run_identity`).
        code: the permission to start the suite's code, which the coordinator has.
        limited: what budgets there are, of which a worker only counts what is spent; None for none.
        files: SHA-256 of the packed files of the checkout, hex.
    """

    id: str
    suite: str
    cwd: str
    flags: Flags
    settings: Settings
    requirements: tuple[str, ...]
    plain_http: bool
    environ: Mapping[str, str] = field(repr=False)
    identity: Mapping[str, Any]
    code: CodeAllowed
    limited: Literal["tokens", "dollars"] | None
    files: str

    @property
    def name(self) -> str:
        """What a worker keeps it under."""
        return f"holodeck-action-{self.id}"


class RemoteTrial(Struct, frozen=True):
    """A trial that has ended on a worker, and what came with it since the last one; it is sent as JSON.

    Attributes:
        trial: free of secrets.
        calls: what model calls came to.
        spent: against budgets.
        imported: files of the suite's code with their digests (`runner.identity.ImportedFiles`).
    """

    trial: TrialRecord
    calls: Counts = msgspec.field(default_factory=Counts)
    spent: Amount = msgspec.field(default_factory=lambda: Amount(0))
    imported: Mapping[str, str | None] = {}
