"""`init`: writes the files that a repository lacks: a runnable suite, its policy file, and a workflow."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Literal

from holodeck_action.commands.init_target import ask_target, edit_policy, framework_agent, packages_environment, quote
from holodeck_action.commands.last_run import IGNORE_FILE, IGNORED
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.record.disk import DISK, make_folder, stage_file
from holodeck_action.run.caller import Caller
from holodeck_action.seam import registry
from holodeck_action.suite.cases.sources import POLICY_NAMES
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.suite.model.named_models import MODEL_MARK, SMALL
from holodeck_action.suite.schema_line import with_schema_line
from holodeck_action.text.foreign import ForeignError, read_file
from holodeck_action.text.given_paths import GivenPath

SUITE = "agent.yaml"
POLICY = POLICY_NAMES[0]
AGENT = "my_agent.py"
CREW = "ask_crew.py"
WORKFLOW = ".github/workflows/evaluate.yml"
PIPELINE = ".gitlab-ci.yml"
CI = {"github": (WORKFLOW, "evaluate.yml"), "gitlab": (PIPELINE, "gitlab-ci.yml")}
"""CI services by name: the workflow file that the service reads, and the shipped file that it is copied from."""
DOCUMENTS: Mapping[str, Literal["agent", "policy"]] = {SUITE: "agent", POLICY: "policy"}
"""Files that get a comment line with their JSON Schema for editors, and the names of the schemas."""
_USES = "uses: holodeck-action/holodeck-action@"
_KEYS = ("        # env:\n", "        #   OPENAI_API_KEY:")
"""Beginnings of the workflow's commented-out lines that pass API keys to the agent."""


def start_suite(folder: GivenPath, framework: str | None, caller: Caller, *, ci: str = "github") -> int:
    """Write the missing files, and print a list of them and the next steps.

    Existing files stay, except that agent.yaml and the policy file get a comment line that names their schema.

    Args:
        folder: root of the repository; created if it does not exist.
        framework: name of the repository's agent framework; None if the user names none.
        caller: the report goes to its standard output; at a terminal the user is prompted for the target.
        ci: name in `CI` of the service that evaluates the suite.

    Raises:
        ConfigurationError: a file cannot be written, or three answers in a row were invalid.
    """
    kept = _existing_parts(folder.path)
    wanted = {name: _read_starter(source) for name, source in _missing_parts(kept, framework, ci).items()}
    notes: list[str] = []
    if framework is not None:
        files, notes = _framework_files(framework, folder.path, wanted, caller)
        wanted |= files
        if POLICY in kept:
            notes.append(f"{kept[POLICY]} already existed; check that it names this target")
    elif POLICY in wanted and AGENT not in wanted and (target := ask_target(caller)) is not None:
        wanted[POLICY] = edit_policy(wanted[POLICY], {"target": quote(target)})
    if IGNORE_FILE not in kept:
        wanted[IGNORE_FILE] = IGNORED
    lined = {}
    for name, document in DOCUMENTS.items():
        if name in wanted:
            wanted[name] = with_schema_line(wanted[name], document) or wanted[name]
        elif (content := _add_schema_line(folder.path / kept[name], document)) is not None:
            lined[kept[name]] = content
    lines = [f"kept {folder / there}{' for ' + what if what != there else ''}" for what, there in kept.items()]
    for done, contents in (("added the line with the schema for editors to", lined), ("wrote", wanted)):
        for name, content in contents.items():
            _write(folder / name, content)
            lines.append(f"{done} {folder / name}")
    root = _repository_root(folder.path)
    if ci == "gitlab" and PIPELINE in kept:
        notes.append(f"{PIPELINE} already existed; add the job of docs/ci.md#gitlab to it")
    if root is not None and WORKFLOW in wanted:
        notes.append(f"GitHub reads workflows only in {root / '.github/workflows'}: move evaluate.yml there")
    lines += [f"note: {note}" for note in notes]
    place = "" if folder.given == Path() else f" {shlex.quote(str(folder))}"
    lines += ["next:", f"  holodeck-action validate{place}", f"  holodeck-action run{place} -o holodeck-results"]
    caller.stdout.write(caller.redact("".join(f"{line}\n" for line in lines)))
    return ExitCode.PASSED


def _read_starter(name: str) -> bytes:
    text = read_file(Path(__file__).parents[1] / "starter" / name).text()
    return text.replace(MODEL_MARK, SMALL).encode()


def _framework_files(
    framework: str, folder: Path, texts: Mapping[str, bytes], caller: Caller
) -> tuple[Mapping[str, bytes], list[str]]:
    """Return the contents, by name, of the files that depend on a framework's agent, and notes about the agent."""
    about = registry.frameworks()[framework]
    spanned = not about.adapter
    agent, others = framework_agent(folder, about, caller)
    reference = agent.reference if agent is not None else about.example
    target = "python:ask_crew:answer" if spanned else f"{framework}:{reference}"
    # The line that names the agent.
    line = f"the import in {CREW}" if spanned else "the line `target:`"
    if agent is None:
        notes = [f"{others[0]}: write your agent's MODULE:NAME into {line} in place of {reference}"]
    else:
        notes = [f"{target} {f'calls {reference}' if spanned else 'answers'}, from {agent.place}"]
        notes += [f"{other}; to use one of them, change {line}" for other in others]
    environment = packages_environment(folder)
    packages = None
    if environment is not None:
        packages = f"{{{environment.given_key}: {getattr(environment, environment.given_key)}}}"
    else:
        notes.append(
            "found no requirements.txt, and no dependencies in pyproject.toml: "
            "name the agent's packages in the line `environment:`"
        )
    if about.spans:
        notes.append(
            f"tool calls and tokens are read from spans, so the agent's packages must include {', '.join(about.spans)}"
        )
    below_src = agent is not None and agent.file.startswith("src/") and not (folder / "src/__init__.py").exists()
    if below_src:
        notes.append(
            "if modules below src import each other, set PYTHONPATH=src for the commands, as the workflow does"
        )
    made = {}
    if WORKFLOW in texts:
        made[WORKFLOW] = _add_variables(texts[WORKFLOW], below_src)
    if POLICY in texts:
        lines = {"target": target, "environment": packages}
        made[POLICY] = edit_policy(texts[POLICY], lines, () if spanned else ("spans",))
    if CREW in texts:
        module, _, name = reference.partition(":")
        imported = f"from {module} import {name}{'' if name == 'crew' else ' as crew'}\n"
        made[CREW] = texts[CREW].decode().replace("from my_crew import crew\n", imported).encode()
    return made, notes


def _add_variables(workflow: bytes, below_src: bool) -> bytes:
    """Return the workflow with its commented-out API keys enabled, and with PYTHONPATH if modules are below src."""
    lines = workflow.decode().splitlines(keepends=True)
    found = [line.replace("# ", "", 1) if line.startswith(_KEYS) else line for line in lines]
    if below_src:
        found.insert(found.index(_KEYS[0].replace("# ", "")) + 1, "          PYTHONPATH: src\n")
    return "".join(found).encode()


def _add_schema_line(file: Path, document: Literal["agent", "policy"]) -> bytes | None:
    """Return the new content of a file, with a comment line that names its schema; None if no change is needed."""
    # What a link leads to may be another repository's.
    if file.is_symlink() or not file.is_file():
        return None
    try:
        return read_file(file, follow_links=False).parse(partial(with_schema_line, document=document))
    except (OSError, ForeignError):
        return None


def _write(path: GivenPath, content: bytes) -> None:
    try:
        make_folder(path.parent)
        with stage_file(path.path, [content]) as temporary:
            if path.path.exists():
                shutil.copymode(path, temporary)
            DISK.replace((temporary, path.path))
    except OSError as error:
        raise ConfigurationError(
            [f"{path}: cannot be written: {error.strerror}; choose a folder that you can write to"]
        ) from error


def _existing_parts(folder: Path) -> Mapping[str, str]:
    """Return the paths of existing parts (suite, workflow, …) by default name; a dangling link counts as existing."""
    kept = {
        name: name
        for name in (SUITE, POLICY, AGENT, CREW, WORKFLOW, PIPELINE, IGNORE_FILE)
        if os.path.lexists(folder / name)
    }
    policy = next((name for name in POLICY_NAMES if os.path.lexists(folder / name)), None)
    if policy is not None:
        kept[POLICY] = policy
    workflows = sorted((folder / WORKFLOW).parent.glob("*.y*ml"))
    uses = next((path.name for path in workflows if path.is_file() and _USES in _read_text(path)), None)
    if WORKFLOW not in kept and uses is not None:
        kept[WORKFLOW] = f".github/workflows/{uses}"
    return kept


def _missing_parts(existing_files: Mapping[str, str], framework: str | None, ci: str) -> Mapping[str, str]:
    """Return the names of the files to write, each with the name of the shipped file that it is made from."""
    # The sample agent answers only the suite that is shipped with it.
    fresh = SUITE not in existing_files and POLICY not in existing_files
    wanted = {SUITE: "agent.yaml", POLICY: "holodeck-action.yaml" if fresh else "gates.yaml", CI[ci][0]: CI[ci][1]}
    if framework is not None:
        wanted |= {SUITE: "framework_agent.yaml", POLICY: "framework.yaml"}
        if not registry.frameworks()[framework].adapter:
            wanted[CREW] = "ask_crew.txt"
    elif fresh:
        wanted[AGENT] = "my_agent.py"
    return {
        name: wanted[name]
        for name in (SUITE, POLICY, AGENT, CREW, WORKFLOW, PIPELINE)
        if name in wanted and name not in existing_files
    }


def _read_text(path: Path) -> str:
    try:
        return read_file(path).lossy_text()
    except OSError:
        return ""


def _repository_root(folder: Path) -> Path | None:
    """Return the root of the repository that contains `folder`; None if `folder` is the root or in no repository."""
    own = Path(os.path.realpath(folder))
    if (own / ".git").exists():
        return None
    return next((parent for parent in own.parents if (parent / ".git").exists()), None)
