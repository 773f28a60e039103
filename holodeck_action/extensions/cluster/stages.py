"""What a cluster does in a run: its options are checked, and its workers run the trials."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from holodeck_action.run.open_suites import Opened
from holodeck_action.run.preflight import Prepared
from holodeck_action.run.request import Request
from holodeck_action.run.schedule import Stop, Trials
from holodeck_action.run.settings import AGAINST
from holodeck_action.run.stages import Executor, Stages, Voice
from holodeck_action.suite.configuration_errors import ConfigurationError, Located, suite_problem
from holodeck_action.suite.hosts import is_loopback
from holodeck_action.suite.model.base_sources import MERGE_BASE
from holodeck_action.suite.model.targets import RecordedTarget

RECORDED_HERE = (
    "--cluster is not used: the answers are recorded and no judge is asked, so this machine evaluates them faster than "
    "workers could; --shard divides them"
)


def address(text: str) -> str:
    """Return the address of a scheduler as it is written.

    Raises:
        ValueError: it is none.
    """
    parts = urlsplit(text)
    bare = parts.username is None and text == f"{parts.scheme}://{parts.netloc}"
    if parts.scheme in ("tcp", "tls") and parts.hostname and parts.port and bare:
        return text
    raise ValueError


class ClusterStages(Stages):
    """Has the workers of a cluster run the trials."""

    ELSEWHERE = True

    def check_request(self, request: Request) -> None:
        """Refuse what does not go with a cluster, or goes nowhere without one; see `Stages.check_request`."""
        flags, given = request.flags, request.flags.extra
        where = given.get("cluster")
        if where is None:
            name = next(name for name in ("cluster-env", "cluster-insecure") if name.replace("-", "_") in given)
            raise ConfigurationError([f"--{name} is about the workers of --cluster: give that, too"])
        here = [name for name in (*AGAINST, "record", "replay", "cache") if getattr(flags, name) is not None]
        for name in (*here, *(["allow_path"] if request.allowed.paths else [])):
            flag = name.replace("_", "-")
            raise ConfigurationError([f"--{flag} is about this machine and does not go with --cluster: leave one out"])
        parts = urlsplit(where)
        if parts.scheme == "tcp" and not is_loopback(parts.hostname or "") and not given.get("cluster_insecure"):
            raise ConfigurationError(
                [
                    f"--cluster {where}: over tcp:// whoever reaches the scheduler reads what is sent and runs code on "
                    "all machines of the cluster; use tls://, or allow it in a closed network by --cluster-insecure"
                ]
            )

    def check(self, item: Prepared) -> Iterator[str | Located]:
        """Yield what the policy file asks for and a cluster cannot do."""
        calls, suite, marks = item.settings.calls, item.suite, item.suite.gate_marks
        if calls.mode != "live" or calls.cache is not None:
            message = "--cluster does not go with recorded or kept model calls, which are on this machine; remove it"
            yield suite_problem(suite, item.shown, marks.get("cache"), "cache.mode", message)
        if item.settings.baseline.source == MERGE_BASE:
            message = (
                "--cluster does not go with merge-base, which runs the base beside the suite; compare with stored "
                "results"
            )
            yield suite_problem(suite, item.shown, marks.get("baseline.source"), "baseline.source", message)

    def executor(self, ready: Opened, request: Request, leave_out: Sequence[Path], voice: Voice) -> Executor | None:
        """Return the workers of the cluster; None if the coordinator evaluates the suite alone."""
        given = request.flags.extra
        if find_spec("distributed") is None:
            raise ConfigurationError(["--cluster needs the package distributed: install holodeck-action[cluster]"])
        from holodeck_action.extensions.cluster.trials import shipment_of

        missing = [name for name in given.get("cluster_env", ()) if name not in ready.item.environ]
        if missing:
            raise ConfigurationError([f"--cluster-env {name}: there is no such variable" for name in missing])
        if isinstance(ready.item.target, RecordedTarget) and ready.wire is None:
            # To send a recorded answer to a worker takes longer than to evaluate it.
            voice.note(RECORDED_HERE)
            return None
        shipment = shipment_of(ready, request, leave_out)

        @asynccontextmanager
        async def opened(stop: Stop) -> AsyncIterator[Trials]:
            from holodeck_action.extensions.cluster.coordinator import Cluster
            from holodeck_action.extensions.cluster.trials import ClusterTrials

            def tell(sentence: str) -> None:
                voice.note(ready.redactor.text(sentence))

            run, packed = shipment.run, shipment.packed
            async with Cluster(given["cluster"], run, packed, lost=stop.request, tell=tell) as cluster:
                yield ClusterTrials(cluster, ready)

        return Executor(shipment.trials, opened)
