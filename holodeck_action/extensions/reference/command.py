"""The command `verify`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from holodeck_action.run.caller import Caller
from holodeck_action.run.options.command_help import HelpfulCommand
from holodeck_action.run.options.flags import PATH

if TYPE_CHECKING:
    from holodeck_action.text.given_paths import GivenPath


@click.command(cls=HelpfulCommand)
@click.argument("results", nargs=-1, required=True, type=PATH)
@click.option("--statement", type=PATH, help="Check instead if this in-toto statement is true of RESULTS and HEAD.")
@click.pass_obj
def verify(caller: Caller, results: tuple[GivenPath, ...], statement: GivenPath | None) -> int:
    """Recompute the text scores of RESULTS (results.json files, or folders of them) with the reference libraries.

    BLEU with sacreBLEU, ROUGE with rouge-score, METEOR with NLTK. Each score that differs by more than 1e-12 is listed.

    Exit code 0: all are equal; 1: one differs, or none could be recomputed; 2: RESULTS cannot be used.

    With --statement, 0: it is true; 1: it is true, and the run did not pass; 2: it is not true; 3: there is no HEAD.
    """
    if statement is not None:
        from holodeck_action.extensions.report_formats.statement_check import check_statement

        return check_statement(statement, results, caller)
    from holodeck_action.extensions.reference.verify import verify_scores

    return verify_scores(results, caller)
