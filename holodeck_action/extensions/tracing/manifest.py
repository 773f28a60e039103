"""What the extension `tracing` adds."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Key

_HERE = "holodeck_action.extensions.tracing"

EXTENSION = Extension(
    name="tracing",
    help="Traces of a run for OpenTelemetry.",
    keys=(Key("observability", to=f"{_HERE}.settings:Observability", secrets=f"{_HERE}.settings:secrets"),),
    stages=f"{_HERE}.stages:TracingStages",
)
