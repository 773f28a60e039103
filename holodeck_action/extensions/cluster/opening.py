"""Opens the suite of a run on a worker, and checks that it equals the coordinator's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.extensions.cluster.values import RemoteRun
from holodeck_action.llm.limits.budget import Budget
from holodeck_action.run.identity import file_digests, run_identity
from holodeck_action.run.loading import SuiteContext, load_suite_at
from holodeck_action.run.open_suites import open_suites
from holodeck_action.run.preflight import prepare_suites
from holodeck_action.run.run import Run
from holodeck_action.run.stages import StagedSuite
from holodeck_action.suite.checkout import Checkout
from holodeck_action.suite.configuration_errors import ConfigurationError

MACHINE_PARTS = ("commit", "environment")
"""Keys of a run's identity whose values may differ between machines."""


class RemoteSuite(Struct, frozen=True):
    """A suite that is open on a worker, and the budget that counts its spending (None if there is no limit)."""

    open_suite: Run
    budget: Budget | None


def open_remote_suite(run: RemoteRun, root: Path, environ: Mapping[str, str]) -> RemoteSuite:
    """Open the suite of a run. Must not be called in an event loop.

    Args:
        run: the run.
        root: folder of the checkout on this machine, with links resolved.
        environ: environment variables of the worker.

    Raises:
        ConfigurationError: the suite cannot run on this machine, or differs from the coordinator's suite.
    """
    # A worker's variables do not describe the event.
    context = SuiteContext({**environ, **run.environ}, root / run.cwd, lambda folders: run.code, run.flags)
    path = root / run.suite
    loaded = load_suite_at(path, Checkout(path.parent, (root,), root / run.cwd), context, grades=True)
    (item,) = prepare_suites((loaded,))
    own = item.settings
    item = replace(item, settings=replace(run.settings, files=own.files, workers=own.workers))
    _check_identity(run.identity, item)
    budget = (
        None if run.budget_unit is None else Budget(max_cost_usd=float("inf") if run.budget_unit == "dollars" else None)
    )
    (ready,) = open_suites([item], budget)
    if ready.resources.wire is not None:
        ready.resources.wire.share(run.sharers)
    return RemoteSuite(replace(ready, exams=run.exams), budget)


def suite_identity(suite: StagedSuite) -> dict[str, Any]:
    """Return the keys and values of a suite's identity that must be equal on every machine.

    Raises:
        OSError: a file cannot be read.
    """
    digests = file_digests(suite.suite, suite.target, suite.target_files)
    found = run_identity(suite.suite, suite.target, suite.target_files, digests)
    return {name: value for name, value in found.items() if name not in MACHINE_PARTS}


def _check_identity(expected: Mapping[str, Any], suite: Run) -> None:
    try:
        found = suite_identity(suite.staged)
    except OSError as error:
        raise ConfigurationError([f"{error.filename}: cannot be read: {error.strerror}"]) from error
    differing = [name for name in expected if expected[name] != found.get(name)]
    if differing:
        raise ConfigurationError(
            [
                (
                    f"{suite.place}: the suite differs from that of the coordinator ({', '.join(differing)} differ): "
                    "the worker has other variables or another configuration in ~/.holodeck; --cluster-env "
                    "sends it variables"
                )
            ]
        )
