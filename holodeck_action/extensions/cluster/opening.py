"""The suite of a run opened on a worker, which must be the coordinator's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.cluster.values import RemoteRun
from holodeck_action.llm.limits.budget import Budget
from holodeck_action.run.identity import file_digests, run_identity
from holodeck_action.run.loading import Surroundings, load_at
from holodeck_action.run.open_suites import Opened, open_all
from holodeck_action.run.preflight import Prepared, prepare
from holodeck_action.run.request import Allowed
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError

if TYPE_CHECKING:
    from holodeck_action.llm.limits.leases import Leases

OF_A_MACHINE = ("commit", "environment")
"""What may differ between machines although the suite is the same."""


class OpenedRemotely(Struct, frozen=True):
    """A suite that can run on a worker, and what counts its spending; None where nothing limits it."""

    ready: Opened
    budget: Budget | None


def open_remotely(run: RemoteRun, root: Path, environ: Mapping[str, str], leases: Leases) -> OpenedRemotely:
    """Open the suite of a run; not within an event loop.

    Args:
        run: the run.
        root: the folder of its checkout here, links resolved.
        environ: of the worker.
        leases: of the accounts that its calls go to.

    Raises:
        ConfigurationError: it cannot run here, or is not what the coordinator has.
    """
    home = environ.get("HOME")
    everything = {**environ, **run.environ}
    around = Surroundings(
        everything,
        Path(home) if home else None,
        root / run.cwd,
        # A worker's variables say nothing of the event.
        lambda: run.code,
        allowed=Allowed((), run.plain_http),
        requirements=run.requirements,
    )
    path = root / run.suite
    loaded = load_at(path, Checkout(path.parent, (root,), root / run.cwd), around)
    (item,) = prepare((loaded,), run.flags, around)
    own = item.settings
    item = replace(item, settings=replace(run.settings, files=own.files, workers=own.workers))
    _compare(run.identity, item)
    budget = None if run.limited is None else Budget(max_cost_usd=float("inf") if run.limited == "dollars" else None)
    (ready,) = open_all([item], [None], budget, resume=False, besides=[None], leases=leases)
    return OpenedRemotely(ready, budget)


def identity_of(item: Prepared) -> dict[str, Any]:
    """Return what a suite must be on every machine.

    Raises:
        OSError: a file cannot be read.
    """
    digests = file_digests(item.suite, item.target, item.target_files)
    found = run_identity(item.suite, item.target, item.target_files, digests)
    return {name: value for name, value in found.items() if name not in OF_A_MACHINE}


def _compare(wanted: Mapping[str, Any], item: Prepared) -> None:
    try:
        found = identity_of(item)
    except OSError as error:
        raise ConfigurationError([f"{error.filename}: cannot be read: {error.strerror}"]) from error
    differing = [name for name in wanted if wanted[name] != found.get(name)]
    if differing:
        raise ConfigurationError(
            [
                f"{item.place}: the suite is not that of the coordinator ({', '.join(differing)} differ): the worker's "
                "variables or its configuration in ~/.holodeck say something else; --cluster-env gives it variables"
            ]
        )
