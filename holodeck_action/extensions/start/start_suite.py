"""`init`: writes the files that a repository lacks: a suite that runs, its policy file, and a workflow."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Literal

from msgspec import Struct

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.importers.import_suite import ImportOptions, import_suite
from holodeck_action.extensions.start.choices import CHECKS, CI, PIPELINE, WORKFLOW
from holodeck_action.extensions.start.found import ASKING, CREW, Found, agent_of, agents, look, read_text
from holodeck_action.extensions.start.questions import Person
from holodeck_action.extensions.start.starter_text import (
    edit_policy,
    import_agent,
    keep_check,
    name_suites,
    packages_environment,
    quote,
)
from holodeck_action.record.disk import DISK, make_folder, stage_file
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.flags import LAST_RESULTS
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
IGNORE_FILE = str(LAST_RESULTS.parents[1] / ".gitignore")
IGNORED = f"{LAST_RESULTS.parent.name}/\n".encode()
"""Content of `IGNORE_FILE`, so that the results of the last run are not committed."""
DOCUMENTS: Mapping[str, Literal["agent", "policy"]] = {SUITE: "agent", POLICY: "policy"}
"""Files that get a comment line with their JSON Schema for editors, and the names of the schemas."""
_STARTER = Path(__file__).parents[2] / "starter"
_USES = "uses: holodeck-action/holodeck-action@"
_KEYS = ("        # env:\n", "        #   OPENAI_API_KEY:")
"""Beginnings of the workflow's commented-out lines that pass API keys to the agent."""
_MAX_NAMES = 20


class StartOptions(Struct, frozen=True):
    """The options of `init`.

    Attributes:
        folder: root of the repository; created if it does not exist.
        framework: name of the repository's agent framework; None to look for everything.
        check: name in `CHECKS`; None if the user names none.
        ci: name in `CI` of the service that evaluates the suite; None if the user names none.
        yes: whether the proposals are taken without a question.
    """

    folder: GivenPath
    framework: str | None
    check: str | None
    ci: str | None
    yes: bool


def start_suite(options: StartOptions, caller: Caller) -> int:
    """Write the missing files, and print a list of them and the next steps.

    Existing files stay, except that agent.yaml and the policy file get a comment line that names their schema.

    Returns:
        The exit code of `import` if a suite of another program is imported, else 0.

    Raises:
        ConfigurationError: a file cannot be written or imported, or three answers in a row were invalid.
    """
    folder = options.folder
    person = Person(caller, take_proposals=options.yes)
    root = _repository_root(folder.path)
    listed = kept = _existing_parts(folder.path, root)
    notes: list[str] = []
    found = _choose_agent(options, kept, person, notes)
    target = None
    if SUITE in kept and POLICY not in kept and found is None:
        target = person.target()
    check = options.check or next(iter(CHECKS))
    if options.check is None and SUITE not in kept and not (found and found.program):
        check = person.choose(
            "What grades the answers?", [(name, f"{name}: {what}") for name, what in CHECKS.items()], "check"
        )
    ci = options.ci or person.choose("Which CI runs the suite?", [(name, name) for name in _services(kept)], "CI")

    code = ExitCode.PASSED
    folders: Sequence[GivenPath] = [folder]
    if found is not None and found.program:
        of_import = ImportOptions(found.program, folder / found.place, folder, None, allow_missing=False, is_part=True)
        code, folders = import_suite(of_import, caller)
        imported = [os.path.relpath(each / name, folder) for each in folders for name in DOCUMENTS]
        listed, kept = kept, {**kept, **{name: name for name in imported}}
    wanted = {name: _read_starter(source) for name, source in _missing_parts(kept, found, ci).items()}
    if SUITE in wanted:
        suite = keep_check(wanted[SUITE].decode(), check)
        if folder.given != Path():
            # Reports of several suites name them.
            suite = suite.replace("name: my-agent\n", f"name: {quote(folder.name)}\n")
        wanted[SUITE] = _suite_of(found, suite).encode()
    if found is not None and not found.program:
        wanted |= _agent_files(found, folder.path, wanted, notes)
        if POLICY in kept:
            notes.append(f"{kept[POLICY]} already existed; check that it names this target")
    elif target is not None:
        wanted[POLICY] = edit_policy(wanted[POLICY], {"target": quote(target)})
    if WORKFLOW in wanted and (check == "judge" or (found is not None and found.calls_model)):
        wanted[WORKFLOW] = _pass_keys(wanted[WORKFLOW])
    suites = [(each.real / SUITE).relative_to(root or folder.real).as_posix() for each in folders]
    file = CI[ci][0]
    if file in wanted:
        wanted[_at_root(file, root)] = name_suites(wanted.pop(file).decode(), SUITE, suites).encode()
    elif ci == "gitlab":
        notes.append(f"{PIPELINE} already existed; add the job of docs/ci.md#gitlab to it")
    elif suites != [SUITE]:
        notes.append(f"{WORKFLOW} already existed; add {', '.join(suites)} to the lines of `suite:` in it")
    if IGNORE_FILE not in kept:
        wanted[IGNORE_FILE] = IGNORED
    lines = _write_files(folder, wanted, kept, listed)
    lines += [f"note: {note}" for note in notes]
    named = [str(each) for each in folders if each.given != Path()]
    lines += ["next:", *(f"  {shlex.join(['holodeck-action', command, *named])}" for command in ("validate", "run"))]
    caller.stdout.write(caller.redact("".join(f"{line}\n" for line in lines)))
    return code


def _choose_agent(options: StartOptions, kept: Mapping[str, str], person: Person, notes: list[str]) -> Found | None:
    """Return the agent to evaluate or the suite to import; None for the shipped agent, or if there is a suite already.

    What else was found goes to `notes`.
    """
    folder = options.folder.path
    if options.framework is not None:
        about = registry.frameworks()[options.framework]
        candidates = agents(folder, about)
        if not candidates:
            function = ", and no function that returns one without an argument," if about.adapter else ""
            line = "the line `target:`" if about.adapter else f"the import in {CREW}"
            notes.append(
                f"found no name that holds {about.agent}{function} at the top level of a Python file: "
                f"write your agent's MODULE:NAME into {line} in place of {about.example}"
            )
            return agent_of(about, about.example)
    elif SUITE in kept or POLICY in kept:
        return None
    else:
        candidates = look(folder)
    listed: list[tuple[Found | None, str]] = [(each, each.description) for each in candidates]
    if options.framework is None:
        listed.append((None, f"none of these: {AGENT}, a small agent to replace with yours"))
    chosen = person.choose("What is evaluated?", listed, "agent")
    if chosen is not None:
        notes += filter(None, [chosen.outcome(options.folder), chosen.note])
    others = [each.name for each in candidates if each is not chosen]
    if others:
        more = f" and {len(others) - _MAX_NAMES} more" if len(others) > _MAX_NAMES else ""
        way = "remove what was written, and run init at a terminal"
        if options.framework is not None:
            way = f"change the import in {CREW}" if chosen and chosen.caller else "change the line `target:`"
        notes.append(f"also found: {', '.join(others[:_MAX_NAMES])}{more}; to use one of them, {way}")
    return chosen


def _services(kept: Mapping[str, str]) -> list[str]:
    """Return the names of CI services: the one whose file the repository has, else all."""
    return [name for name, (file, _) in CI.items() if file in kept][:1] or [*CI]


def _read_starter(name: str) -> bytes:
    text = read_file(_STARTER / name).text()
    return text.replace(MODEL_MARK, SMALL).encode()


def _suite_of(found: Found | None, suite: str) -> str:
    """Return a shipped suite whose own model has the instructions that were found, if any were."""
    if found is None or not found.instructions:
        return suite
    suite = suite.replace("inline: The agent has its own instructions.", f"file: {quote(found.instructions)}")
    return suite.replace(
        "model: # not asked here: the target in holodeck-action.yaml answers; metrics with a judge ask this model",
        "model: # answers the cases, with the instructions below",
    )


def _agent_files(found: Found, folder: Path, texts: Mapping[str, bytes], notes: list[str]) -> Mapping[str, bytes]:
    """Return the contents, by name, of the files that depend on the agent; what else is to be done goes to `notes`."""
    made = {}
    packages = None
    environment = packages_environment(folder)
    if environment is not None:
        packages = f"{{{environment.given_key}: {getattr(environment, environment.given_key)}}}"
    elif found.framework is not None:
        notes.append(
            "found no requirements.txt, and no dependencies in pyproject.toml: "
            "name the agent's packages in the line `environment:`"
        )
    if POLICY in texts and found.target:
        unused = {"spans": found.caller != CREW, "environment": bool(found.url)}
        made[POLICY] = edit_policy(
            texts[POLICY],
            {"target": found.target, "environment": packages},
            [key for key, is_unused in unused.items() if is_unused],
        )
    if found.caller in texts:
        made[found.caller] = import_agent(
            texts[found.caller].decode(), found.imported, is_async=found.is_async
        ).encode()
    return made


def _pass_keys(workflow: bytes) -> bytes:
    """Return the workflow with its commented-out API keys enabled."""
    lines = workflow.decode().splitlines(keepends=True)
    return "".join(line.replace("# ", "", 1) if line.startswith(_KEYS) else line for line in lines).encode()


def _write_files(
    folder: GivenPath, wanted: dict[str, bytes], kept: Mapping[str, str], listed: Mapping[str, str]
) -> list[str]:
    """Write files, and the line with the schema to those that exist; return what was done as lines.

    Args:
        folder: the folder that the names are relative to.
        wanted: contents of the files to write, by name.
        kept: paths of the parts that exist, by default name.
        listed: those of them that existed before `init`.
    """
    lined = {}
    for name in wanted.keys() & DOCUMENTS.keys():
        wanted[name] = with_schema_line(wanted[name], DOCUMENTS[name]) or wanted[name]
    for name, there in kept.items():
        document = DOCUMENTS.get(os.path.basename(name))
        if document and (content := _add_schema_line(folder.path / there, document)) is not None:
            lined[there] = content
    lines = [
        f"kept {_shown(folder, there)}{'' if there.endswith(what) else f' for {what}'}"
        for what, there in listed.items()
    ]
    for done, contents in (("added the line with the schema for editors to", lined), ("wrote", wanted)):
        for name, content in contents.items():
            _write(folder / name, content)
            lines.append(f"{done} {_shown(folder, name)}")
    return lines


def _shown(folder: GivenPath, name: str) -> str:
    """Return the path of a part in messages; an absolute one is that of the repository's root."""
    return os.path.relpath(name, os.path.realpath(folder.start)) if os.path.isabs(name) else str(folder / name)


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


def _at_root(file: str, root: Path | None) -> str:
    """Return the path of a CI service's file, which the service reads only at the root of a repository.

    Args:
        file: path of the file in the repository.
        root: absolute path of the repository's root; None if it is the folder that paths are relative to.
    """
    return file if root is None else str(root / file)


def _existing_parts(folder: Path, root: Path | None) -> Mapping[str, str]:
    """Return the paths of existing parts (suite, workflow, …) by default name; a dangling link counts as existing."""
    parts = {name: name for name in (SUITE, POLICY, AGENT, CREW, ASKING, WORKFLOW, PIPELINE, IGNORE_FILE)}
    parts |= {file: _at_root(file, root) for file, _ in CI.values()}
    kept = {name: there for name, there in parts.items() if os.path.lexists(folder / there)}
    policy = next((name for name in POLICY_NAMES if os.path.lexists(folder / name)), None)
    if policy is not None:
        kept[POLICY] = policy
    workflows = sorted((folder / parts[WORKFLOW]).parent.glob("*.y*ml"))
    uses = next((path.name for path in workflows if path.is_file() and _USES in read_text(path)), None)
    if WORKFLOW not in kept and uses is not None:
        kept[WORKFLOW] = os.path.join(os.path.dirname(parts[WORKFLOW]), uses)
    return kept


def _missing_parts(existing_files: Mapping[str, str], found: Found | None, ci: str) -> Mapping[str, str]:
    """Return the names of the files to write, each with the name of the shipped file that it is made from."""
    wanted = {}
    if found is None:
        # The sample agent answers only the suite that is shipped with it.
        fresh = SUITE not in existing_files and POLICY not in existing_files
        wanted = {SUITE: SUITE, POLICY: POLICY, AGENT: AGENT} if fresh else {SUITE: SUITE, POLICY: "gates.yaml"}
    elif not found.program:
        wanted = {SUITE: "framework_agent.yaml", POLICY: "framework.yaml" if found.target else "gates.yaml"}
        if found.caller:
            wanted[found.caller] = found.caller.replace(".py", ".txt")
    return {name: source for name, source in [*wanted.items(), CI[ci]] if name not in existing_files}


def _repository_root(folder: Path) -> Path | None:
    """Return the root of the repository that contains `folder`; None if `folder` is the root or in no repository."""
    own = Path(os.path.realpath(folder))
    if (own / ".git").exists():
        return None
    return next((parent for parent in own.parents if (parent / ".git").exists()), None)
