"""The extras of holodeck-action that a loaded suite needs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath

from holodeck_action.run.environments.extra_needs import NeededExtra
from holodeck_action.run.options.action_inputs import Flags
from holodeck_action.run.stages import stages_of
from holodeck_action.seam import registry
from holodeck_action.suite.applicability import judged_metrics, library_metrics
from holodeck_action.suite.model.targets import OWN_MODEL, AnyTarget, ModelTarget
from holodeck_action.suite.values import Suite


def needed_extras(suite: Suite, environ: Mapping[str, str], flags: Flags | None = None) -> tuple[NeededExtra, ...]:
    """Return the extras that a run of a suite needs, installed or not, one `NeededExtra` for each reason.

    The suite's code runs under a separate Python, so the packages that it imports are not extras.

    Args:
        suite: the suite.
        environ: the suite's environment.
        flags: the command line; None if no options are given.
    """
    flags = flags or Flags()
    found = (*_table_needs(suite), *_metric_needs(suite), *_file_needs(suite))
    targets = (flags.target, flags.against_target)
    if OWN_MODEL in targets or (flags.target is None and suite.policy.target is None):
        found += tuple(_tool_needs(suite))
    for stages in stages_of([suite], flags):
        found += tuple(NeededExtra(*need) for need in stages.extras(suite, flags, environ))
    return tuple(dict.fromkeys(found))


def agent_extras(suite: Suite, target: AnyTarget) -> tuple[NeededExtra, ...]:
    """Return the extras that a suite's target needs to answer, without those of metrics and tables."""
    return tuple(dict.fromkeys(_tool_needs(suite))) if isinstance(target, ModelTarget) else ()


def _table_needs(suite: Suite) -> Iterator[NeededExtra]:
    """Yield the needs of the files that cases come from."""
    known = registry.tables()
    for file in dict.fromkeys(case.mark.file for case in suite.cases):
        table = known.get(PurePath(file).suffix.lower())
        if table is not None and table.extra:
            yield NeededExtra(table.extra, f"file {file}")


def _metric_needs(suite: Suite) -> Iterator[NeededExtra]:
    libraries = registry.libraries()
    for (_, label), config in (judged_metrics(suite.cases) | library_metrics(suite.cases)).items():
        if config.library is not None:
            yield NeededExtra(libraries[config.library].extra, f"metric {label}")


def _file_needs(suite: Suite) -> Iterator[NeededExtra]:
    """Yield the needs of the cases' files; a text at a URL also needs an extra, since it may be a web page."""
    if not any(turn.files for case in suite.cases for turn in case.turns):
        return
    from holodeck_action.targets.documents.reader import EXTRA
    from holodeck_action.targets.own_model.case_files import display_name, files_to_convert

    for _, file, _ in files_to_convert(suite.cases):
        yield NeededExtra(EXTRA, f"file {display_name(file)}")
    for file in (file for case in suite.cases for turn in case.turns for file in turn.files):
        if file.type == "text" and file.url is not None:
            yield NeededExtra(EXTRA, f"file {display_name(file)}")


def _tool_needs(suite: Suite) -> Iterator[NeededExtra]:
    known = registry.tools()
    for tool in suite.agent.tools or ():
        kind = known.get(tool.type)
        if kind is None:
            continue
        if kind.extra:
            yield NeededExtra(kind.extra, f"tool {tool.name}")
        if kind.documents:
            from holodeck_action.targets.documents.reader import EXTRA

            for name in registry.resolve(kind.documents)(tool, suite):
                yield NeededExtra(EXTRA, f"file {name} of the tool {tool.name}")
