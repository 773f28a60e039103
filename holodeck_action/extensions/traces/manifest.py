"""The manifest of the extension `traces`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Command, Conversations, Extension, Option, StepCommand

_HERE = "holodeck_action.extensions.traces"

EXTENSION = Extension(
    name="traces",
    help="Conversations of production, judged as their traces report them.",
    needs=("frameworks",),
    commands=(
        Command(
            name="drift",
            help="Compare the conversations in RESULTS with earlier ones: pass rate and metrics.",
            to=f"{_HERE}.command:drift",
            group="Look",
        ),
    ),
    steps=(StepCommand(name="drift", run=f"{_HERE}.step:drift_in_step", inputs=()),),
    conversations=(Conversations(name="traces", open=f"{_HERE}.target:TraceTarget"),),
    options=(
        Option(
            "sample",
            "Judge this many conversations of --target traces:PATH, drawn at random.",
            metavar="N",
            allowed="a whole number of at least 1",
            read=f"{_HERE}.target:read_size",
        ),
        Option(
            "sample-by",
            "Draw rare models, tags or tools more often; their weights correct the results.",
            metavar="WHAT",
            allowed="model, tag or tool",
            read=f"{_HERE}.target:read_strata",
        ),
        Option(
            "sample-seed",
            "Draw another sample (default: 1).",
            metavar="SEED",
            allowed="a whole number of at least 0",
            read=f"{_HERE}.target:read_seed",
        ),
    ),
    stages=f"{_HERE}.target:TraceStages",
)
