"""Runs on a Dask cluster: real scheduler and workers as processes, and models on loopback."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path

import pytest

from holodeck_action.record.canonical import canonical_json
from holodeck_action.record.record import Record
from holodeck_action.record.result_files import read_record
from tests.commands.project import Finished, Project
from tests.extensions.cluster.dask import CountingProxy, Dask
from tests.llm.models import KEY, FakeModels, counted_echo
from tests.run.test_resume import journaled

AT_ONCE = 12
GRADER = """
from holodeck.lib.test_runner.code_grader import GraderContext, GraderResult

def polite(context: GraderContext) -> GraderResult:
    return GraderResult(score=1.0 if "echo" in context.agent_response else 0.0)
"""

pytestmark = [pytest.mark.timeout(300), pytest.mark.models(answer=counted_echo, latency=0.15)]
Started = Callable[..., Dask]


@pytest.fixture
def models(models: FakeModels) -> FakeModels:
    """The shared server; it takes twelve calls of a key at once, and goes on with calls whose client has left."""
    models.lingering = True
    models.limit(AT_ONCE)
    return models


@pytest.fixture
def dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    with ExitStack() as scope:

        def started(workers: int = 2, protocol: str = "tcp", *, fresh: bool = False, **environ: str) -> Dask:
            folder = tmp_path_factory.mktemp("dask")
            return scope.enter_context(Dask(folder, environ, workers=workers, protocol=protocol, fresh=fresh))

        yield started


def asking(project: Project, models: FakeModels, count: int, **policy: object) -> None:
    """Write a suite of cases that an echo passes but every seventh, some with two turns."""
    cases = []
    for at in range(count):
        asked = [
            {"input": f"say {at} {turn}", "ground_truth": f"echo: say {at} {turn}" if at % 7 else "else"}
            for turn in range(1 + at % 2)
        ]
        cases.append({"name": f"case {at}", **(asked[0] if len(asked) == 1 else {"turns": asked})})
    metrics = [
        {"type": "standard", "metric": "equality"},
        {"type": "standard", "metric": "rouge"},
        {"type": "code", "name": "polite", "grader": "graders:polite"},
    ]
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "max_tokens": 100}
    project.suite(cases, metrics, model=model)
    project.policy(limits={"concurrency": AT_ONCE}, **policy)
    project.write("graders.py", GRADER)
    project.write(".env", "FORGOTTEN=not sent\n")


def run(project: Project, folder: str, *arguments: str, **environ: str) -> tuple[Finished, Record]:
    finished = project.run("run", "-o", folder, *arguments, **environ)
    return finished, read_record(project.folder / folder / "results.json")


@pytest.mark.full
@pytest.mark.races
@pytest.mark.proves("run: --cluster --cluster-env")
def test_a_run_with_a_lost_worker_equals_one_on_this_machine(
    project: Project, models: FakeModels, dask: Started
) -> None:
    """Nothing is lost or double, the account's limit holds across workers, and calls and tokens are counted."""
    asking(project, models, 80)
    alone = project.run("run", "-o", "alone", OPENAI_API_KEY=KEY)
    wanted = read_record(project.folder / "alone" / "results.json")
    assert alone.code == 1
    asked = len(models.requests)

    cluster = dask(OPENAI_API_KEY="")
    # Nobody gave the workers the key.
    unknown = project.run("run", "--limit", "3", "--cluster", cluster.address, OPENAI_API_KEY=KEY)
    assert unknown.code == 3
    assert "refused the key (status 401); check OPENAI_API_KEY" in unknown.stdout
    assert models.count(key=KEY) == asked
    before = len(models.requests)

    def lose_one() -> None:
        models.wait_for(lambda found: len(found.requests) > before + 40, seconds=90)
        cluster.kill()

    killer = threading.Thread(target=lose_one)
    killer.start()
    arguments = ("--cluster", cluster.address, "--cluster-env", "OPENAI_API_KEY")
    finished, record = run(project, "out", *arguments, OPENAI_API_KEY=KEY)
    killer.join()

    assert finished.code == alone.code
    assert canonical_json(record) == canonical_json(wanted)
    asked_again = len(models.requests) - before
    # A lost trial makes both its calls again, and so does one whose result was on its way.
    assert asked < asked_again <= asked + 3 * AT_ONCE
    # Only answers that came count; those of the lost worker since its last trial do not.
    assert record.run.model_calls is not None
    assert 90 * 100 <= (record.run.model_calls.tokens or 0) <= 90 * asked_again
    assert models.statuses[429] == 0
    assert KEY not in cluster.log


@pytest.mark.full
@pytest.mark.races
def test_the_checkout_is_sent_once_for_all_workers(project: Project, models: FakeModels, dask: Started) -> None:
    """Other workers get it from those that have it, one that comes after its first holder is gone, too."""
    asking(project, models, 60)
    large = 3_000_000
    (project.folder / "data.bin").write_bytes(os.urandom(large))
    cluster = dask(workers=3, OPENAI_API_KEY=KEY)
    before = len(models.requests)
    models.hold()

    def replace_one() -> None:
        # No worker alone has so many trials: by then the others have the checkout, too.
        models.wait_for(lambda found: found.under_way == AT_ONCE, seconds=90)
        models.release()
        models.wait_for(lambda found: len(found.requests) > before + 40, seconds=90)
        cluster.kill()
        cluster.start_worker(OPENAI_API_KEY=KEY)

    replacing = threading.Thread(target=replace_one)
    replacing.start()
    with CountingProxy(cluster.address) as proxy:
        finished, record = run(project, "out", "--cluster", proxy.address, OPENAI_API_KEY=KEY)
    replacing.join()
    assert (finished.code, len(record.cases)) == (1, 60), finished.stderr
    assert not [case for case in record.cases if any(trial.error for trial in case.trials)]
    assert large < proxy.sent < 1.5 * large


@pytest.mark.full
@pytest.mark.races
def test_a_run_goes_on_when_all_workers_were_lost_and_others_come(
    project: Project, models: FakeModels, dask: Started
) -> None:
    asking(project, models, 60)
    _, wanted = run(project, "alone", OPENAI_API_KEY=KEY)
    before = len(models.requests)
    cluster = dask(workers=1, OPENAI_API_KEY=KEY)

    def replace_all() -> None:
        models.wait_for(lambda found: len(found.requests) > before + 20, seconds=90)
        cluster.kill()
        cluster.start_worker()

    replacer = threading.Thread(target=replace_all)
    replacer.start()
    finished, record = run(project, "out", "--cluster", cluster.address, OPENAI_API_KEY=KEY)
    replacer.join()

    assert canonical_json(record) == canonical_json(wanted), finished.stderr
    # Trials of two turns are asked from the first one on.
    assert len(models.requests) - before <= before + 3 * AT_ONCE
    assert models.statuses[429] == 0


@pytest.mark.full
@pytest.mark.races
def test_a_killed_coordinator_is_resumed(project: Project, models: FakeModels, dask: Started) -> None:
    asking(project, models, 60)
    project.run("run", "-o", "alone", OPENAI_API_KEY=KEY)
    wanted = read_record(project.folder / "alone" / "results.json")
    asked = len(models.requests)
    cluster = dask(OPENAI_API_KEY=KEY)
    arguments = ("run", "-o", "out", "--cluster", cluster.address)
    with project.start(*arguments, OPENAI_API_KEY=KEY) as process:
        project.wait_until(lambda: len(journaled(project.out / "journal.jsonl")) > 5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
    kept = len(journaled(project.out / "journal.jsonl"))

    finished, record = run(project, "out", "--resume", "--cluster", cluster.address, OPENAI_API_KEY=KEY)

    assert canonical_json(record) == canonical_json(wanted), finished.stderr
    assert record.run.resumed_trials == kept
    # What was under way, on all workers, is asked twice.
    assert len(models.requests) - asked <= asked + 2 * 2 * AT_ONCE


@pytest.mark.races
def test_a_trial_whose_workers_die_is_an_error_and_the_others_go_on(project: Project, dask: Started) -> None:
    project.numbered(20)
    project.policy(target="python:agent:answer")
    # The process of the agent is a child of the worker.
    project.write(
        "agent.py",
        "import os, signal, time\n"
        "def answer(messages):\n"
        "    number = messages[-1]['content'].removeprefix('what is ').removesuffix('?')\n"
        "    if number == '7':\n"
        "        time.sleep(0.3)\n"
        "        os.kill(os.getppid(), signal.SIGKILL)\n"
        "    return number\n",
    )
    cluster = dask(workers=3, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="1")

    finished, record = run(project, "out", "--cluster", cluster.address, "--concurrency", "2")

    assert finished.code == 3
    wrong = {case.name: case.trials[0].error for case in record.cases if case.trials[0].error is not None}
    assert wrong.keys() == {"case 7"}
    error = wrong["case 7"]
    assert error is not None
    assert error.message == "the trial was given up: 2 workers of the cluster died while they ran it; see their logs"
    assert len(record.cases) == sum(len(case.trials) for case in record.cases) == 20


def test_a_budget_ends_the_run_with_the_trials_under_way(project: Project, models: FakeModels, dask: Started) -> None:
    asking(project, models, 200)
    cluster = dask(OPENAI_API_KEY=KEY)

    finished, record = run(
        project, "out", "--cluster", cluster.address, "--max-tokens", str(90 * 60), OPENAI_API_KEY=KEY
    )

    assert finished.code in (1, 4)
    assert record.stopped is not None
    assert "the budget of 5,400 tokens is used up" in record.stopped
    assert 60 <= len(models.requests) <= 60 + 2 * 2 * AT_ONCE


def test_workers_must_have_the_same_suite(project: Project, dask: Started) -> None:
    """A variable of the suite has another value there, unless the workers are given it."""
    project.suite([{"name": "one", "input": "what is ${SHOP}?", "ground_truth": "1"}])
    project.write("agent.py", "def answer(messages):\n    return '1'\n")
    project.policy(target="python:agent:answer")
    cluster = dask(workers=1, SHOP="theirs")
    arguments = ("run", "-o", "out", "--cluster", cluster.address)

    refused = project.run(*arguments, SHOP="ours")
    assert refused.code == 2
    (error,) = refused.errors
    assert "the suite differs from that of the coordinator (cases differ)" in error
    assert project.run(*arguments, "--cluster-env", "SHOP", SHOP="ours").code == 0


@pytest.mark.full
def test_a_worker_that_comes_late_and_has_another_suite_takes_no_part(project: Project, dask: Started) -> None:
    project.suite([{"name": f"case {at}", "input": f"what is {at}?", "ground_truth": "${SHOP}"} for at in range(20)])
    project.policy(target="python:agent:answer", limits={"concurrency": 2})
    go = project.folder / "go"
    project.write(
        "agent.py",
        "import os, time\n"
        "def answer(messages):\n"
        "    while 'what is 9?' in messages[-1]['content'] and not os.path.exists(os.environ['GO']):\n"
        "        time.sleep(0.1)\n"
        "    return 'ours'\n",
    )
    cluster = dask(workers=1, SHOP="ours", GO=str(go))
    with project.start("run", "-o", "out", "--cluster", cluster.address, SHOP="ours") as process:
        project.wait_until(lambda: bool(journaled(project.out / "journal.jsonl")))
        cluster.start_worker(SHOP="theirs")
        assert process.stderr is not None
        # The run goes on only after the coordinator has refused the worker.
        (refusal,) = islice((line for line in process.stderr if "is not used" in line), 1)
        go.touch()
        _, said = process.communicate(timeout=100)
    assert process.returncode == 0, said
    assert "is not used: agent.yaml: the suite differs from that of the coordinator (cases differ)" in refusal


@pytest.mark.full
def test_tls_with_the_certificates_of_dasks_configuration(project: Project, tmp_path: Path, dask: Started) -> None:
    certificates = certificates_in(tmp_path / "certificates")
    project.numbered(20)
    project.write("agent.py", "def answer(messages):\n    return messages[-1]['content'][8:-1]\n")
    project.policy(target="python:agent:answer")
    cluster = dask(workers=1, protocol="tls", fresh=True, **certificates)
    assert cluster.address.startswith("tls://")

    assert project.run_process("run", "--cluster", cluster.address, **certificates).code == 0
    refused = project.run_process("run", "--cluster", cluster.address)
    assert refused.code == 2
    assert refused.errors[0].startswith(f"--cluster {cluster.address}: no usable Dask scheduler was found there (")


def certificates_in(folder: Path) -> dict[str, str]:
    """Write a certificate that is its own authority; return the variables by which Dask finds it."""
    from datetime import UTC, datetime, timedelta

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    folder.mkdir()
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "cluster")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    (folder / "cluster.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    found = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(folder / "cluster.pem")}
    for role in ("CLIENT", "SCHEDULER", "WORKER"):
        found[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(folder / "cluster.pem")
        found[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(folder / "key.pem")
    return found


@pytest.mark.full
@pytest.mark.races
def test_a_run_whose_scheduler_is_lost_is_stopped_and_goes_on_here(
    project: Project, models: FakeModels, dask: Started
) -> None:
    models.latency = 0.5
    asking(project, models, 60)
    cluster = dask(workers=1, OPENAI_API_KEY=KEY, DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT="2s")
    arguments = ("run", "-o", "out", "--cluster", cluster.address)
    environ = {"OPENAI_API_KEY": KEY, "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "2s"}
    with project.start(*arguments, **environ) as process:
        project.wait_until(lambda: len(journaled(project.out / "journal.jsonl")) > 5)
        cluster.scheduler.kill()
        _, said = process.communicate(timeout=100)
    models.latency = 0.0
    # Two of the cases that were done had failed.
    assert process.returncode == 1, said
    assert "Traceback" not in said
    stopped = read_record(project.out / "results.json")
    assert stopped.stopped is not None
    assert stopped.stopped.startswith(f"the scheduler {cluster.address} was lost")

    finished, record = run(project, "out", "--resume", OPENAI_API_KEY=KEY)
    assert finished.code == 1
    assert record.run.resumed_trials > 5
    assert sum(len(case.trials) for case in record.cases) == 60


@pytest.mark.full
@pytest.mark.races
def test_a_stopped_run_leaves_the_workers_free(project: Project, models: FakeModels, dask: Started) -> None:
    """A signal ends the run in an orderly way; the workers forget it, and call no model any more."""
    models.latency = 1.0
    asking(project, models, 60)
    cluster = dask(workers=1, OPENAI_API_KEY=KEY)
    with project.start("run", "-o", "out", "--cluster", cluster.address, OPENAI_API_KEY=KEY) as process:
        models.wait_for(lambda found: len(found.requests) > 8, seconds=90)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    assert process.returncode == 4, said
    arguments = ("--limit", "1", "--cluster", cluster.address)
    # Requests that were under way when the command ended have arrived after a whole run of others.
    run(project, "other", *arguments, OPENAI_API_KEY=KEY)
    asked = len(models.requests)
    assert asked < 60
    # Others have the workers to themselves: meanwhile nothing else is asked.
    _, record = run(project, "another", *arguments, OPENAI_API_KEY=KEY)
    assert len(models.requests) - asked == sum(1 for case in record.cases if case.trials for _ in case.turns)
    assert "Traceback" not in said


@pytest.mark.full
def test_the_coordinator_probes_the_judges_once(project: Project, models: FakeModels, dask: Started) -> None:
    models.answer(lambda request: json.dumps({"reason": "because", "verdict": "yes"}))
    model = {"provider": "openai", "name": "gpt-4o", "endpoint": models.openai_url, "max_tokens": 100}
    project.suite([{"name": f"case {at}", "input": f"say {at}"} for at in range(4)], [{"type": "refusal"}], model=model)
    project.policy(judges={"probe": "auto"})
    address = dask(OPENAI_API_KEY=KEY).address
    finished, record = run(project, "out", "--cluster", address, OPENAI_API_KEY=KEY)
    assert finished.code == 3
    assert [(each.passed, each.attempts) for each in record.probes] == [(False, 2)]
    assert {each.error.code for each in record.evaluations if each.error is not None} == {"exam_failed"}
    # Both answers twice, and one call of the agent for each case.
    assert len(models.requests) == 4 + 4
