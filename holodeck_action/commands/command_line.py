"""The commands of the command line: each parses its arguments, calls one function, and returns its exit code.

Heavy modules are imported by the command that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holodeck_action.commands.command_classes import ExportCommand, Program, SchemaCommand
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.action_inputs import COMPARISON
from holodeck_action.run.options.flags import (
    ACCESS,
    EPILOG,
    GATES,
    JUDGES_ONLY,
    MODEL_CALLS,
    PATH,
    PUBLISH,
    PUBLISH_EPILOG,
    RUN,
    SUITES,
    VERSION,
    settings,
)
from holodeck_action.seam import registry

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.group(cls=Program, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@VERSION
def cli() -> None:
    """Evaluate agent.yaml suites and fail when a threshold is violated."""


@cli.command(epilog=EPILOG)
@SUITES
@settings(*RUN)
@click.pass_obj
def run(caller: Caller, /, **given: Any) -> int:
    """Run SUITEs (files, folders or globs; default: agent.yaml) and judge the answers.

    \b
    Examples:
      holodeck-action run
      holodeck-action run examples/support/agent.yaml -o results
      holodeck-action run --target recorded:answers.jsonl --case 'refund*'
      holodeck-action run 'agents/**/agent.yaml' --min-pass-rate 0.9
      holodeck-action run --baseline merge-base
      holodeck-action run agent.yaml --against old/agent.yaml
    """
    from holodeck_action.commands.run import run_suites

    return run_suites(given, caller)


@cli.command()
@SUITES
@settings("allow-empty", "env-file", "requirements", *ACCESS)
@click.pass_obj
def validate(caller: Caller, /, **given: Any) -> int:
    """Check SUITEs (default: agent.yaml) with everything they refer to, and report all errors at once.

    Exit code 0: valid; 2: not valid.
    """
    from holodeck_action.commands.validate import validate_suites

    return validate_suites(given, caller)


@cli.command(epilog=EPILOG)
@click.argument("results", nargs=-1, type=PATH)
@settings(
    *("policy", *GATES, "baseline", "on-missing-baseline", *COMPARISON, "on-changed-code", "history"),
    *(item.name for item in registry.options("gate")),
    *("output-dir", "template", "html", "fail-on"),
    help_texts={"policy": "Take the gates from this policy file."},
)
@click.pass_obj
def gate(caller: Caller, /, results: tuple[GivenPath, ...], **given: Any) -> int:
    """Decide stored RESULTS, without running anything: those of this program, or of promptfoo and others.

    Without RESULTS: those in .holodeck/last, where a run without --output-dir keeps them. The grades stay as they are:
    to grade the same answers by other metrics or judges, use rejudge. Results of other programs are decided as one run,
    and written as results.json; docs/results-of-others.md lists the formats.

    \b
    Examples:
      holodeck-action gate results/results.json --min-pass-rate 0.9
      holodeck-action gate out/promptfoo.json --baseline artifact -o holodeck-results
      holodeck-action gate junit.xml --cases 40
    """
    from holodeck_action.commands.gate import gate_results
    from holodeck_action.run.options.request import flags_from

    return gate_results(results, flags_from({**given, "results": tuple(map(str, results))}), caller)


@cli.command(epilog=EPILOG)
@click.argument("base", type=PATH)
@click.argument("head", type=PATH, required=False)
@click.option("--history", type=PATH, metavar="DIR", help="Folder of a history. BASE and HEAD may name its runs.")
@click.option("--judge", metavar="SUITE", help="Let the metrics preference of SUITE compare the answers of both runs.")
@settings(
    *("policy", *COMPARISON, "format", "output", "max-cost-usd", "max-tokens", *MODEL_CALLS),
    help_texts=JUDGES_ONLY,
)
@click.pass_obj
def compare(caller: Caller, /, base: GivenPath, head: GivenPath | None, judge: str | None, **given: Any) -> int:
    """Compare the run HEAD with the run BASE (each a results.json, or a folder with one), without running an agent.

    Cases are paired by id and content. The command fails if something got worse. Without HEAD: the run in
    .holodeck/last, where one without --output-dir keeps its results. With --history, BASE and HEAD can also be runs of
    a history: 4 or more characters of the commit, or -1 for the newest run, -2 for the one before.

    \b
    Examples:
      holodeck-action compare base/results.json holodeck-results/results.json
      holodeck-action compare main-results pull-results --baseline-margin 0.05 --format markdown
      holodeck-action compare main-results pull-results --judge agent.yaml
      holodeck-action compare --history runs 3f2a91c results
      holodeck-action compare --history runs -- -2 -1
    """
    from holodeck_action.commands.compare_judging import compare_with

    return compare_with(base, head, judge, given, caller)


@cli.command(epilog=EPILOG)
@click.argument("folders", nargs=-1, required=True, type=PATH, metavar="FOLDER...")
@settings("output-dir", "template", "html", "fail-on")
@click.pass_obj
def merge(caller: Caller, /, folders: tuple[GivenPath, ...], **given: Any) -> int:
    """Put the results of all shards of a run together, and judge them as one run, without running anything.

    FOLDERs are the output folders of `run --shard`, or folders that contain them. If shards are missing, doubled or of
    different runs, they are named, and nothing is written.

    \b
    Examples:
      holodeck-action merge shards -o holodeck-results
      holodeck-action merge shard-1 shard-2 shard-3 -o holodeck-results
    """
    from holodeck_action.commands.merge import merge_runs

    return merge_runs(folders, given, caller)


@cli.command(epilog=EPILOG)
@click.argument("results", type=PATH)
@click.argument("suite", default="agent.yaml", metavar="[SUITE]")
@settings(
    *("output-dir", "concurrency", "run-timeout", "max-cost-usd", "max-tokens", *GATES, "resume"),
    *(*MODEL_CALLS, "template", "html", "fail-on"),
    help_texts={
        **JUDGES_ONLY,
        "concurrency": "Maximum number of conversations judged concurrently [default: 10].",
        "run-timeout": "Time limit in seconds [default: no limit].",
        "resume": "Continue an interrupted call from the journal in the output directory.",
    },
)
@click.pass_obj
def rejudge(caller: Caller, /, results: GivenPath, suite: str, **given: Any) -> int:
    """Grade the stored answers of RESULTS (a results.json) again, by the current metrics and judges of SUITE.

    The agent is not run. Every case of RESULTS must have the same question and expectation in SUITE. To keep the grades
    and apply other gates, use gate, which calls no model.

    \b
    Examples:
      holodeck-action rejudge results/results.json -o rejudged
      holodeck-action rejudge results/results.json other-judges/agent.yaml --max-cost-usd 1
    """
    from holodeck_action.commands.rejudge import rejudge_record

    return rejudge_record(results, suite, given, caller)


@cli.command()
@click.argument("results", nargs=-1, type=PATH)
@click.option(
    "--format",
    type=click.Choice(["markdown", "html", "junit", "json", "csv", "console"]),
    default="console",
    show_default=True,
)
@click.option("--canonical", is_flag=True, help="Omit values that differ between runs: equal records give equal bytes.")
@settings(
    *("output", "template", "case"),
    help_texts={
        "template": "Render the Markdown report with this Jinja template.",
        "case": "Show only cases whose id or name matches, in the HTML page.",
    },
)
@click.pass_obj
def report(caller: Caller, /, results: tuple[GivenPath, ...], canonical: bool, **given: Any) -> int:
    """Show RESULTS (a results.json) in a format, without running anything.

    Without RESULTS: those in .holodeck/last, where a run without --output-dir keeps them. With --format html, several
    RESULTS are runs in the columns of one table; the first is the run of the page.

    Exit code 0: shown; 2: RESULTS or an option cannot be used.
    """
    from holodeck_action.commands.report import show_record
    from holodeck_action.run.options.request import flags_from

    return show_record(results, flags_from(given), caller, canonical=canonical)


@cli.command(cls=ExportCommand)
@click.argument("results", type=PATH)
@click.option("-o", "--output", "file", type=PATH, metavar="PATH", help="Write the document, or the folder, here.")
@click.pass_obj
def export(caller: Caller, /, format: str, **given: Any) -> int:
    """Write RESULTS (a results.json) in another format, without running anything.

    Exit code 0: written; 2: RESULTS or an option cannot be used.

    \b
    Examples:
      holodeck-action export results/results.json --format honeyhive -o honeyhive.json
      holodeck-action export results/results.json --format honeyhive --card card/judge-card.json
      holodeck-action export results/results.json --format parquet -o tables
    """
    from holodeck_action.commands.export import export_record

    return export_record(format, given, caller)


@cli.command(epilog=PUBLISH_EPILOG)
@click.argument("results", nargs=-1, required=True)
@click.option("--to", type=click.Choice(["github", *registry.services()]), default="github", show_default=True)
@settings(
    *("repository", "pull-request", "sha", *PUBLISH),
    help_texts={
        "template": "Render the comment with this Jinja template.",
        "fail-on": "When to end with the verdict's exit code: violation [default], or never.",
    },
)
@click.pass_obj
def publish(caller: Caller, /, results: tuple[str, ...], **given: Any) -> int:
    """Publish RESULTS (results.json files, or folders of them) to GitHub, without running anything.

    The token is taken from GITHUB_TOKEN, or from GITLAB_TOKEN for a note on the merge request of a pipeline of GitLab.

    \b
    Examples:
      holodeck-action publish holodeck-results
      holodeck-action publish results.json --repository octo/shop --pull-request 7 --no-check
      holodeck-action publish holodeck-results --to gitlab
    """
    from holodeck_action.commands.publish import publish_runs

    return publish_runs(results, given, caller)


@cli.command(cls=SchemaCommand)
@click.pass_obj
def schema(caller: Caller, document: str) -> int:
    """Print the JSON Schema of a DOCUMENT.

    Documents are agent.yaml, the policy file, the request to an agent and its reply, and the files that commands write.
    """
    from holodeck_action.commands.schema import print_schema

    return print_schema(document, caller)
