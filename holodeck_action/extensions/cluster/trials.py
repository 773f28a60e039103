"""Trials of a suite run on a cluster: what `runner.schedule` asks for, answered by workers."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.cluster.opening import identity_of
from holodeck_action.extensions.cluster.shipping import ShippingError, digest_of, pack
from holodeck_action.extensions.cluster.values import RemoteRun, RemoteTrial
from holodeck_action.record.record import TrialRecord
from holodeck_action.run.open_suites import Opened
from holodeck_action.run.preflight import Prepared
from holodeck_action.run.request import Request
from holodeck_action.run.settings import Flags
from holodeck_action.run.trial import Clock
from holodeck_action.run.trials import SYSTEM_CLOCK
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.targets import ModelTarget
from holodeck_action.suite.values import Case
from holodeck_action.text.redaction import Redactor

if TYPE_CHECKING:
    from holodeck_action.extensions.cluster.coordinator import Cluster


class ClusterTrials(Struct, frozen=True):
    """Runs the trials of an opened suite on a cluster, and counts here what they took."""

    cluster: Cluster
    ready: Opened

    @property
    def clock(self) -> Clock:
        """The time here."""
        return SYSTEM_CLOCK

    @property
    def redactor(self) -> Redactor:
        """Masks secrets; trials come without any."""
        return self.ready.redactor

    async def run(self, case: Case, index: int, slot: AbstractAsyncContextManager[Any]) -> TrialRecord:
        """Run one trial; see `runner.trial.TrialRunner.run`."""
        answered = asyncio.Event()
        async with slot:
            running = asyncio.create_task(self.cluster.trial(case.id, index, answered.set))
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
        self._count(done)
        return done.trial

    def _count(self, done: RemoteTrial) -> None:
        self.ready.imported.take(done.imported)
        for budget in self.ready.budgets:
            budget.charge(done.spent)
        if self.ready.wire is not None:
            counts, more = self.ready.wire.counts, done.calls
            counts.calls += more.calls
            counts.cached += more.cached
            counts.failed += more.failed
            counts.requests += more.requests
            counts.tokens = None if None in (counts.tokens, more.tokens) else (counts.tokens or 0) + (more.tokens or 0)
            known = None not in (counts.cost_usd, more.cost_usd)
            counts.cost_usd = (counts.cost_usd or 0.0) + (more.cost_usd or 0.0) if known else None


class Shipment(Struct, frozen=True):
    """What is sent to workers: the run, the files of its checkout, and how many trials at a time."""

    run: RemoteRun
    packed: bytes
    trials: int


def shipment_of(ready: Opened, request: Request, leave_out: Sequence[Path]) -> Shipment:
    """Return what the workers of a cluster need to run a suite.

    Args:
        ready: the suite.
        request: what is asked for.
        leave_out: folders of which nothing is sent.

    Raises:
        ConfigurationError: something cannot be sent.
    """
    item, flags = ready.item, request.flags
    checkout = item.suite.checkout
    assert checkout.roots is not None
    root = checkout.roots[0]
    folder, cwd = Path(os.path.realpath(item.suite.folder)), Path(os.path.realpath(checkout.cwd))
    limited: Literal["tokens", "dollars"] | None = None
    if ready.budgets:
        in_dollars = any(budget.max_cost_usd is not None for budget in ready.budgets)
        limited = "dollars" if in_dollars else "tokens"
    try:
        packed = pack(root, item.environ, [Path(os.path.realpath(path)) for path in leave_out])
        run = RemoteRun(
            id=uuid.uuid4().hex,
            suite=os.path.relpath(folder / item.suite.file, root),
            cwd=os.path.relpath(cwd, root) if cwd.is_relative_to(root) else os.path.relpath(folder, root),
            flags=_choosing(flags),
            settings=replace(item.settings, max_cost_usd=None, max_tokens=None, run_timeout_s=None),
            requirements=request.requirements,
            plain_http=request.allowed.plain_http,
            environ={name: item.environ[name] for name in flags.extra.get("cluster_env", ())},
            identity=identity_of(item),
            code=item.code,
            limited=limited,
            files=digest_of(packed),
        )
        return Shipment(run, packed, _at_a_time(item))
    except OSError as error:
        raise ConfigurationError([f"{error.filename}: cannot be read: {error.strerror}"]) from error
    except ShippingError as error:
        raise ConfigurationError([str(error)]) from error


def _at_a_time(item: Prepared) -> int:
    """Return how many trials workers have at a time.

    If a trial does nothing but call models, they have half as many more than may run. The others wait on their worker,
    which then need not wait for the coordinator when an answer comes.
    """
    at_once = item.settings.concurrency
    only_calls = isinstance(item.target, ModelTarget) and not item.suite.agent.tools
    return at_once + at_once // 2 if only_calls else at_once


def _choosing(flags: Flags) -> Flags:
    """Return the flags that say which cases there are, and what answers them."""
    return replace(flags, extra={}, shard=None, max_cost_usd=None, max_tokens=None, run_timeout_s=None)
