"""Measures a job of the Action without a container, from checkout to comment: `python -m bench.job [--all]`.

The composite action runs as the runner runs it, as processes, against a GitHub on loopback. Cold: uv has no cache, so
all packages come from the package index. Warm: uv has the packages in its cache, but there is no environment. Kept: the
environment exists. The floor, in the same run, is uv alone that installs the base. CPU is that of all processes; MB are
the environments that the job made.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import click

from bench.judges import JUDGED, judge_server, judged_suite, plain_truths
from bench.live import KEY
from bench.suites import write_suite
from tests.action.composite import run
from tests.github.events import HEAD, MERGE, event_environ
from tests.github.fake import FakeGitHub, Token
from tests.github.workflow import BOT, REPOSITORY, TOKEN, WRITES
from tests.workers.installing import uv

_ROOT = Path(__file__).parents[1]
_BASE = ("--extra", "github")
CASES = 20


@click.command()
@click.option("--all", "everything", is_flag=True, help="Also install all extras, which takes minutes.")
def main(everything: bool) -> None:
    """Print sizes and times."""
    with tempfile.TemporaryDirectory() as root, FakeGitHub() as hub:
        folder = Path(root)
        click.echo(f"{'installation':<28}  {'MB':>5}  {'cold s':>7}  {'warm s':>7}")
        floor = _print_installation(folder, "uv: base and github", *_BASE)
        repository = hub.add_repository(REPOSITORY)
        repository.add_pull(7, head_sha=HEAD, head_repository=REPOSITORY, branch="topic", merge_sha=MERGE, files=[])
        hub.add_token(TOKEN, Token(login=BOT, kind="installation", permissions=dict(WRITES)))
        with judge_server("plain", CASES) as server:
            suites = {"text": write_suite(folder / "text", CASES), "judged": folder / "judged"}
            suites["judged"].mkdir()
            judged = judged_suite(server, plain_truths(CASES), JUDGED[:1])
            (suites["judged"] / "agent.yaml").write_text(json.dumps(judged))
            for kind, workspace in suites.items():
                _measure_jobs(folder, kind, workspace, hub, floor)
        if not repository.comments(7):
            raise SystemExit("the jobs wrote no comment")
        _print_pip(folder, "pip: holodeck-action", ".")
        if everything:
            _print_installation(folder, "uv: all extras", "--all-extras", "--no-install-package", "rouge-score")
            _print_pip(folder, "pip: with all extras", ".[agents,azure,cluster,files,github,judges,otel,parquet]")


def _measure_jobs(folder: Path, kind: str, workspace: Path, hub: FakeGitHub, floor: tuple[float, float]) -> None:
    """Print seconds, CPU and the size of the environments of a suite's jobs: cold, warm and kept."""
    (workspace / ".git").mkdir()
    (workspace / ".git" / "HEAD").write_text(f"{MERGE}\n")
    click.echo(f"a job with a {kind} suite of {CASES} cases, from checkout to comment:")
    removed: dict[str, tuple[str, ...]] = {"cold": ("home", "uv"), "warm": ("home",), "kept": ()}
    for name, gone in removed.items():
        for each in gone:
            shutil.rmtree(folder / each, ignore_errors=True)
        before = _children_cpu()
        seconds = _seconds(partial(_run_job, folder, workspace, hub, f"{kind}-{name}"))
        cpu, size = _children_cpu() - before, _megabytes(folder / "home")
        of = floor[0] if name == "cold" else floor[1]
        times = f"{seconds:>6.1f} s  {seconds / of:.2f} × installing the base alone"
        click.echo(f"  {name}  {times}  {cpu:>5.1f} s CPU  {size:>4.0f} MB")


def _children_cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _run_job(folder: Path, workspace: Path, hub: FakeGitHub, name: str) -> None:
    files = folder / f"files-{name}"
    files.mkdir()
    environ = {
        **os.environ,  # proxies and certificates of this machine
        **event_environ("pull_request", files),
        "PATH": f"{uv().parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder / "home"),
        "UV_CACHE_DIR": str(folder / "uv"),
        "RUNNER_TEMP": str(files),
        "GITHUB_API_URL": hub.url,
        "GITHUB_RUN_ID": "4242",
        "CI": "true",
        "OPENAI_API_KEY": KEY,
    }
    ended = run(workspace, {}, environ, TOKEN, timeout_s=600)
    if ended.code not in (0, 1):
        raise SystemExit(ended.log)


def _print_installation(folder: Path, what: str, *packages: str) -> tuple[float, float]:
    """Install in an environment of its own, without and with uv's cache; return both times."""
    place = folder / "installed"
    command = (str(uv()), "sync", "--quiet", "--frozen", "--no-dev", "--no-install-project", *packages)
    environ = {**os.environ, "UV_CACHE_DIR": str(folder / "uv"), "UV_PROJECT_ENVIRONMENT": str(place)}
    shutil.rmtree(folder / "uv", ignore_errors=True)
    times = []
    for _ in range(2):
        shutil.rmtree(place, ignore_errors=True)
        times.append(_seconds(lambda: subprocess.run(command, cwd=_ROOT, env=environ, check=True)))
    click.echo(f"{what:<28}  {_megabytes(place):>5.0f}  {times[0]:>7.1f}  {times[1]:>7.1f}")
    shutil.rmtree(place)
    return times[0], times[1]


def _print_pip(folder: Path, what: str, package: str) -> None:
    place, cache = folder / "pip", folder / "pip-cache"
    shutil.rmtree(cache, ignore_errors=True)
    times = []
    for _ in range(2):
        shutil.rmtree(place, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(place)], check=True)
        command = (str(place / "bin" / "pip"), "install", "--quiet", "--cache-dir", str(cache), package)
        before = _megabytes(place)
        times.append(_seconds(partial(subprocess.run, command, cwd=_ROOT, check=True, stderr=subprocess.DEVNULL)))
    click.echo(f"{what:<28}  {_megabytes(place) - before:>5.0f}  {times[0]:>7.1f}  {times[1]:>7.1f}")
    shutil.rmtree(place)


def _megabytes(folder: Path) -> float:
    """Size of a folder in 10⁶ bytes, each file once."""
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_symlink()) / 1e6


def _seconds(call: Callable[[], object]) -> float:
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


if __name__ == "__main__":
    main()
