"""Runs trials of a suite on a cluster; implements `run.schedule.Trials`."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import uuid
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.cluster.opening import suite_identity
from holodeck_action.extensions.cluster.packing import PackingError, pack, packed_digest
from holodeck_action.extensions.cluster.values import RemoteRun, RemoteTrial
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.stages import Counters, StagedSuite
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.values import Case

if TYPE_CHECKING:
    from holodeck_action.extensions.cluster.coordinator import Cluster
    from holodeck_action.llm.limits.budget import Budget


class ClusterTrials(Struct, frozen=True):
    """Runs the trials of an open suite on a cluster, and adds up their calls and costs.

    Trials from workers arrive with their secrets masked.
    """

    cluster: Cluster
    counters: Counters

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial; see `run.trial.TrialRunner.run`."""
        answered = asyncio.Event()
        async with slot:
            running = asyncio.create_task(self.cluster.run_trial(case.id, index, answered.set))
            running.add_done_callback(lambda _: answered.set())
            try:
                await answered.wait()
            except asyncio.CancelledError:
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
                raise
        try:
            done = await running
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            raise
        self._add_totals(done)
        return done.trial

    def _add_totals(self, trial: RemoteTrial) -> None:
        self.counters.used.add_imports(trial.imported)
        self.counters.used.add_digests(trial.used)
        for budget in self.counters.budgets:
            budget.charge(trial.spent)
        if self.counters.wire is not None:
            counts, more = self.counters.wire.counts, trial.calls
            for name in ("calls", "cached", "failed", "requests"):
                setattr(counts, name, getattr(counts, name) + getattr(more, name))
            counts.notices = tuple(dict.fromkeys((*counts.notices, *more.notices)))
            counts.tokens = None if None in (counts.tokens, more.tokens) else (counts.tokens or 0) + (more.tokens or 0)
            known = None not in (counts.cost_usd, more.cost_usd)
            counts.cost_usd = (counts.cost_usd or 0.0) + (more.cost_usd or 0.0) if known else None


_NO_LIMITS: Mapping[str, Any] = dict.fromkeys(("max_cost_usd", "max_tokens", "run_timeout_s"))
"""Limits that the coordinator alone applies."""


class WorkerInput(Struct, frozen=True):
    """The data for workers: the run, the packed files of its checkout, and the number of concurrent trials."""

    run: RemoteRun
    packed: bytes
    trials: int


def build_worker_input(
    item: StagedSuite, budgets: Sequence[Budget], flags: Flags, excluded_folders: Sequence[Path]
) -> WorkerInput:
    """Return the data that the workers of a cluster need to run a suite.

    Args:
        item: the suite.
        budgets: the budgets of its model calls.
        flags: the options of the command.
        excluded_folders: folders to exclude from the packed files.

    Raises:
        ConfigurationError: the files cannot be packed, or a setting cannot be sent to workers.
    """
    checkout = item.suite.checkout
    assert checkout.roots is not None
    root = checkout.roots[0]
    folder, cwd = Path(os.path.realpath(item.suite.folder)), Path(os.path.realpath(checkout.cwd))
    budget_unit: Literal["tokens", "dollars"] | None = None
    if budgets:
        in_dollars = any(budget.max_cost_usd is not None for budget in budgets)
        budget_unit = "dollars" if in_dollars else "tokens"
    try:
        packed = pack(root, item.environ, [Path(os.path.realpath(path)) for path in excluded_folders])
        run = RemoteRun(
            id=uuid.uuid4().hex,
            suite=os.path.relpath(folder / item.suite.file, root),
            cwd=os.path.relpath(cwd, root) if cwd.is_relative_to(root) else os.path.relpath(folder, root),
            flags=dataclasses.replace(flags, extra={}, shard=None, env_file=None, **_NO_LIMITS),
            settings=replace(item.settings, **_NO_LIMITS),
            environ={name: item.environ[name] for name in flags.extra.get("cluster_env", ())},
            identity=suite_identity(item),
            code=item.code,
            budget_unit=budget_unit,
            files_digest=packed_digest(packed),
        )
        return WorkerInput(run, packed, _concurrent_trials(item))
    except OSError as error:
        raise ConfigurationError([f"{error.filename}: cannot be read: {error.strerror}"]) from error
    except PackingError as error:
        raise ConfigurationError([str(error)]) from error


def _concurrent_trials(suite: StagedSuite) -> int:
    """Return the number of trials that are submitted to workers at the same time.

    If trials only call models, this is 1.5 times the concurrency: the additional trials wait on the workers, so that a
    worker starts its next trial without waiting for the coordinator.
    """
    at_once = suite.settings.concurrency
    only_calls = isinstance(suite.target, ModelTarget) and not suite.suite.agent.tools
    return at_once + at_once // 2 if only_calls else at_once
