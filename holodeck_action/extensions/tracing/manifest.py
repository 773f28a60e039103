"""The manifest of the extension `tracing`."""

from __future__ import annotations

from holodeck_action.seam.manifest import Extension, Key

_HERE = "holodeck_action.extensions.tracing"

_NAMES = {
    "holodeck.models.observability": {
        "ConsoleExporterConfig": f"{_HERE}.settings:ConsoleExporter",
        "ExportersConfig": f"{_HERE}.settings:Exporters",
        "LogsConfig": f"{_HERE}.settings:Logs",
        "MetricsConfig": f"{_HERE}.settings:MetricsExport",
        "OTLPExporterConfig": f"{_HERE}.settings:OTLPExporter",
        "ObservabilityConfig": f"{_HERE}.settings:Observability",
        "TracingConfig": f"{_HERE}.settings:Traces",
    },
}

EXTENSION = Extension(
    name="tracing",
    help="Traces of a run for OpenTelemetry.",
    keys=(Key("observability", to=f"{_HERE}.settings:Observability", secrets=f"{_HERE}.settings:secrets"),),
    stages=f"{_HERE}.stages:TracingStages",
    names=_NAMES,
)
