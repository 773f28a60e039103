"""`init`: what a repository lacks to be evaluated: a suite that runs, its policy file, and a workflow."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path

from pydantic_core import PydanticCustomError

from holodeck_action.commands.caller import Caller
from holodeck_action.commands.last_run import IGNORE_FILE, IGNORED
from holodeck_action.results.disk import write_atomically
from holodeck_action.results.exit_codes import ExitCode
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.sources import POLICY_NAMES
from holodeck_action.suite.targets import FORMS, parse_target
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.plain import one_line

SUITE = "agent.yaml"
POLICY = POLICY_NAMES[0]
AGENT = "my_agent.py"
WORKFLOW = ".github/workflows/evaluate.yml"
_TARGET = "# target: "
"""What the policy file has where a target can be named."""
_ATTEMPTS = 3
_USES = "uses: holodeck-action/holodeck-action@"


def start_suite(folder: GivenPath, caller: Caller) -> int:
    """Write what is not there, and say what was done and what comes next; no file that exists is touched.

    Args:
        folder: root of the repository; made when it does not exist.
        caller: whose standard output says so, and who is asked for a target at a terminal.

    Raises:
        ConfigurationError: a file cannot be written, or no target was named.
    """
    kept = _kept(folder.path)
    shipped = files("holodeck_action") / "starter"
    lines = [f"kept {folder / there}{' for ' + what if what != there else ''}" for what, there in kept.items()]
    wanted = {name: (shipped / source).read_bytes() for name, source in _wanted(kept).items()}
    if POLICY in wanted and AGENT not in wanted:
        wanted[POLICY] = _with_target(wanted[POLICY], caller)
    if IGNORE_FILE not in kept:
        wanted[IGNORE_FILE] = IGNORED
    for name, content in wanted.items():
        path = folder / name
        try:
            path.path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path.path, [content])
        except OSError as error:
            raise ConfigurationError(
                [f"{path}: cannot be written: {error.strerror}; give a folder that is yours to write to"]
            ) from error
        lines.append(f"wrote {path}")
    root = _repository_root(folder.path)
    if root is not None and WORKFLOW not in kept:
        lines.append(f"note: GitHub reads workflows only in {root / '.github/workflows'}: move evaluate.yml there")
    place = "" if folder.given == Path() else f" {shlex.quote(str(folder))}"
    lines += ["next:", f"  holodeck-action validate{place}", f"  holodeck-action run{place} -o holodeck-results"]
    caller.stdout.writelines(f"{line}\n" for line in lines)
    return ExitCode.PASSED


def _with_target(policy: bytes, caller: Caller) -> bytes:
    """Return a policy file with the target that a person at a terminal names; as it is where nobody does.

    Raises:
        ConfigurationError: none of three answers was a target.
    """
    if not caller.stdin.isatty():
        return policy
    for _ in range(_ATTEMPTS):
        caller.stderr.write(f"What answers the cases? {FORMS}; empty for the suite's own model: ")
        caller.stderr.flush()
        answer = caller.stdin.readline().strip()
        if not answer:
            return policy
        try:
            parse_target(answer)
        except PydanticCustomError as error:
            caller.stderr.write(f"{one_line(answer, 200)}: {error.message()}\n")
            continue
        lines = policy.decode().splitlines(keepends=True)
        named = f"target: {json.dumps(answer)}\n"
        return "".join(named if line.startswith(_TARGET) else line for line in lines).encode()
    raise ConfigurationError([f"no target was named in {_ATTEMPTS} answers; nothing was written"])


def _kept(folder: Path) -> Mapping[str, str]:
    """Return the parts that are there, each with the file that it is; a link that leads nowhere is there, too."""
    kept = {name: name for name in (SUITE, POLICY, AGENT, WORKFLOW, IGNORE_FILE) if os.path.lexists(folder / name)}
    policy = next((name for name in POLICY_NAMES if os.path.lexists(folder / name)), None)
    if policy is not None:
        kept[POLICY] = policy
    workflows = sorted((folder / WORKFLOW).parent.glob("*.y*ml"))
    uses = next((path.name for path in workflows if path.is_file() and _USES in _text(path)), None)
    if WORKFLOW not in kept and uses is not None:
        kept[WORKFLOW] = f".github/workflows/{uses}"
    return kept


def _wanted(kept: Mapping[str, str]) -> Mapping[str, str]:
    """Return the files to write, each with the shipped file that it is a copy of."""
    # A stand-in answers only the suite that comes with it.
    fresh = SUITE not in kept and POLICY not in kept
    wanted = {SUITE: "agent.yaml", POLICY: "holodeck-action.yaml" if fresh else "gates.yaml", WORKFLOW: "evaluate.yml"}
    if fresh:
        wanted[AGENT] = "my_agent.py"
    return {name: wanted[name] for name in (SUITE, POLICY, AGENT, WORKFLOW) if name in wanted and name not in kept}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _repository_root(folder: Path) -> Path | None:
    """Return the root of the repository around `folder`; None when it is the root itself, or there is none."""
    own, *parents = (folder.resolve(), *folder.resolve().parents)
    if (own / ".git").exists():
        return None
    return next((parent for parent in parents if (parent / ".git").exists()), None)
