"""The closure of a run: everything of the checkout that can change its verdict, by kind and with digests.

`KINDS` declares the kinds. docs/security.md and docs/verdict.md print them as a table.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from holodeck_action.suite.errors import SourceMark

KindName = Literal["grading code", "evidence", "questions", "tested", "surroundings"]


class Kind(NamedTuple):
    """A kind of things that can change a verdict.

    Attributes:
        name: the kind.
        holds: the things of this kind.
        record: the part of the record that has their digests.
        reaction: the reaction to a change since the base.
    """

    name: KindName
    holds: str
    record: str
    reaction: str


KINDS = (
    Kind(
        "grading code",
        "graders, own metrics, `gates.summary.function`, functions of cases, every module of the checkout that they "
        "import, and every file of the checkout that they open, list or run",
        "`run.closure.code`",
        "no direction: `--on-changed-code`, else `--on-loosened`",
    ),
    Kind(
        "evidence",
        "recordings that answer instead of models, and the setting that lets them: `--replay`, `cache`, "
        "`target: recorded:`",
        "`run.closure.evidence`, `run.closure.answers`, `provenance.target`",
        "no direction: `--on-changed-code`, else `--on-loosened`",
    ),
    Kind(
        "questions",
        "cases with their inputs, files and expectations, metrics with their settings, gates, quarantine, trials, "
        "judges",
        "the record itself, `run.closure.attached`",
        "less strict, changed or unknown: `--on-loosened`",
    ),
    Kind(
        "tested",
        "the agent: its model, instructions, tools and code, or the transcript of a recorded target",
        "`provenance.target`, the answers",
        "the gates on regressions",
    ),
    Kind(
        "surroundings",
        "the code's interpreter and packages, judges' prompts, the versions of holodeck-action and of a coding agent",
        "`run.closure.surroundings`, `configurations.*.version`",
        "reported, without a reaction",
    ),
)
"""The kinds of everything that can change a verdict."""

Digests = Mapping[str, str | None]
"""SHA-256 (hex) of files, by path relative to the suite's folder; None if there is no such file, `WRITTEN` if the run
wrote it. The name of a folder ends with `/`; its digest covers the names in it."""
WRITTEN = "written during the run"
"""In place of the digest of a file that was written after the run began, such as one that the agent leaves for a
grader. Code that restores its own file is no such file on the base."""


class Closure(Struct, frozen=True, omit_defaults=True):
    """The files and settings that can change a run's verdict, without those that the record has elsewhere.

    Attributes:
        code: the grading code: graders, own metrics, functions of cases and of the summary, and the files that they
            import, open, list or run.
        graders: file of each reference to grading code, such as `graders:politeness`; a reference to an installed
            package is missing.
        shared: the files in `code` that the target imports, too.
        unused: the files of the base's `code` that this run did not use, as they are now.
        answers: folder of the recordings that answer instead of models; empty if models are called.
        answers_source: position of the setting in the policy file; None if a flag or nothing sets it.
        evidence: the files of the recordings that answer.
        attached: the files that cases attach.
        surroundings: version or digest of the interpreter and packages, by name.
    """

    code: Digests = {}
    graders: Mapping[str, str] = {}
    shared: tuple[str, ...] = ()
    unused: Digests = {}
    answers: str = ""
    answers_source: SourceMark | None = None
    evidence: Digests = {}
    attached: Digests = {}
    surroundings: Mapping[str, str] = {}


def merge_closures(closures: list[Closure | None]) -> Closure | None:
    """Return the closure of a run whose shards have these closures; None if a shard has none."""
    known = [each for each in closures if each is not None]
    if not known or len(known) < len(closures):
        return None
    code = {name: digest for each in known for name, digest in each.code.items()}
    unused = {name: digest for each in known for name, digest in each.unused.items() if name not in code}
    shared = tuple(sorted({name for each in known for name in each.shared}))
    # `merge` has checked that shards have the same settings.
    return replace(known[0], code=code, shared=shared, unused=unused)
