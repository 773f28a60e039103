"""The manifest of the extension `results`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Conversations, Extension, Option

_HERE = "holodeck_action.extensions.results"

EXTENSION = Extension(
    name="results",
    help="Stored results of promptfoo and others, decided by gates, or as the answers to a suite.",
    results=f"{_HERE}.gate:judge_stored",
    conversations=(Conversations(name="results", open=f"{_HERE}.target:ResultsTarget"),),
    stages=f"{_HERE}.options:ResultsStages",
    options=(
        Option(
            "cases",
            "With results of other programs: how many cases there should be.",
            metavar="N",
            allowed="a whole number of at least 1",
            read=f"{_HERE}.options:read_cases",
            of=("run", "gate"),
        ),
        Option(
            "accept-stored",
            "With results of other programs: accept committed and older files, and those of another commit.",
            flag=True,
            of=("run", "gate"),
        ),
        Option(
            "pass-at",
            "With results of other programs: least passing score of a metric that has only scores.",
            metavar="[NAME=]SCORE",
            allowed="SCORE or NAME=SCORE",
            read=f"{_HERE}.options:read_pass_mark",
            many=True,
            of=("run", "gate"),
        ),
        Option(
            "without-plugin",
            "With results of claude plugin eval: decide the runs without the plugin, as a base of those with it.",
            flag=True,
            of=("run", "gate"),
        ),
    ),
)
