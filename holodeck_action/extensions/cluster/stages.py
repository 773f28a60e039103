"""The stages of a run on a cluster: checks the options and provides the executor of trials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from holodeck_action.run.options.action_inputs import AGAINST, Flags
from holodeck_action.run.schedule import Stop, Trials
from holodeck_action.run.stages import Counters, Executor, StagedSuite, Stages, UserOutput
from holodeck_action.scoring.exam_results import Exams
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.configuration_errors import ConfigurationError, LocatedProblem, suite_problem
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.targets import ConversationsTarget, RecordedTarget
from holodeck_action.suite.values import Suite

_EXTRA = "cluster"
CLUSTER_UNUSED = (
    "--cluster is not used: the answers are recorded and no judge is called, so this machine "
    "evaluates them faster than workers would; use --shard to split them"
)


def parse_address(text: str) -> str:
    """Return the URL of a scheduler unchanged if it is valid.

    Raises:
        ValueError: the URL is invalid.
    """
    parts = urlsplit(text)
    bare = parts.username is None and text == f"{parts.scheme}://{parts.netloc}"
    if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and bare:
        return text
    raise ValueError


class ClusterStages(Stages):
    """Runs the trials on the workers of a cluster."""

    GRADES_ELSEWHERE = True

    def extras(self, suite: Suite, flags: Flags, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        """Return the package extra that installs the cluster's client; see `Stages.extras`."""
        return ((_EXTRA, "--cluster"),) if "cluster" in flags.extra else ()

    def check_flags(self, flags: Flags) -> None:
        """Refuse options that conflict with a cluster or have no effect without one; see `Stages.check_flags`."""
        given = flags.extra
        where = given.get("cluster")
        if where is None:
            name = next(name for name in ("cluster-env", "cluster-insecure") if name.replace("-", "_") in given)
            raise ConfigurationError([f"--{name} applies to the workers of --cluster; give --cluster, too"])
        here = [name for name in (*AGAINST, "record", "replay", "cache") if getattr(flags, name) is not None]
        for name in (*here, *(["allow_path"] if flags.allow_paths else [])):
            flag = name.replace("_", "-")
            raise ConfigurationError(
                [f"--{flag} applies to this machine and cannot be combined with --cluster; leave one out"]
            )
        parts = urlsplit(where)
        if parts.scheme == "tcp" and not is_loopback(parts.hostname or "") and not given.get("cluster_insecure"):
            raise ConfigurationError(
                [
                    (
                        f"--cluster {where}: over tcp:// anyone who can reach the scheduler can read the traffic and "
                        "run code on all machines of the cluster; use tls://, or allow it in a closed network "
                        "with --cluster-insecure"
                    )
                ]
            )

    def check(self, staged: StagedSuite) -> Iterator[str | LocatedProblem]:
        """Yield a problem for each setting of the policy file that a cluster does not support."""
        calls, suite, marks = staged.settings.calls, staged.suite, staged.suite.gate_marks
        if calls.mode != "live" or calls.cache is not None:
            message = (
                "--cluster cannot be combined with recorded or cached model calls, which are on this machine; remove it"
            )
            yield suite_problem(suite, staged.display_folder, marks.get("cache"), "cache.mode", message)
        if isinstance(staged.target, ConversationsTarget):
            target = staged.target.name
            yield f"--cluster cannot be combined with --target {target}:, whose files are on this machine"
        if staged.settings.baseline.source == MERGE_BASE:
            message = (
                "--cluster cannot be combined with merge-base, which runs the base together with the "
                "suite; compare with stored results"
            )
            yield suite_problem(suite, staged.display_folder, marks.get("baseline.source"), "baseline.source", message)

    def executor(
        self, suite: StagedSuite, counters: Counters, flags: Flags, excluded: Sequence[Path], user_output: UserOutput
    ) -> Executor | None:
        """Return the executor that uses the cluster's workers; None if the suite runs in this process."""
        given = flags.extra
        if find_spec("distributed") is None:
            raise ConfigurationError(
                [f"--cluster needs the Python package 'distributed', which is not installed; {way_to_get(_EXTRA)}"]
            )
        from holodeck_action.extensions.cluster.trials import build_worker_input

        missing = [name for name in given.get("cluster_env", ()) if name not in suite.environ]
        if missing:
            raise ConfigurationError([f"--cluster-env {name}: there is no such variable" for name in missing])
        if isinstance(suite.target, RecordedTarget) and counters.wire is None:
            # Sending a recorded answer to a worker takes longer than evaluating it.
            user_output.note(CLUSTER_UNUSED)
            return None
        worker_input = build_worker_input(suite, counters.budgets, flags, excluded)

        @asynccontextmanager
        async def open_cluster(stop: Stop, exams: Exams) -> AsyncIterator[Trials]:
            from holodeck_action.extensions.cluster.coordinator import Cluster
            from holodeck_action.extensions.cluster.trials import ClusterTrials

            def note(sentence: str) -> None:
                user_output.note(suite.redactor.text(sentence))

            run, packed = replace(worker_input.run, exams=exams), worker_input.packed
            async with Cluster(given["cluster"], run, packed, on_lost=stop.request, note=note) as cluster:
                yield ClusterTrials(cluster, counters)

        return Executor(worker_input.trials, open_cluster)
