"""Metrics: their settings, as classes for Python code, and their scoring.

Each class has the settings of the suite entries with the same `type`. `holodeck_action.score` scores with its
instances. Classes are imported on demand. Extensions declare further classes of `holodeck_action.metrics` in their
manifests.
"""

_HERE = "holodeck_action.metrics"
PUBLIC = {
    "Bleu": f"{_HERE}.text_similarity:BLEUMetric",
    "Composite": f"{_HERE}.composite:CompositeMetric",
    "Contains": f"{_HERE}.text_checks:ContainsMetric",
    "ContainsAll": f"{_HERE}.text_checks:ContainsAllMetric",
    "ContainsAny": f"{_HERE}.text_checks:ContainsAnyMetric",
    "EndsWith": f"{_HERE}.text_checks:EndsWithMetric",
    "Equality": f"{_HERE}.deterministic:EqualityMetric",
    "F1": f"{_HERE}.text_similarity:F1Metric",
    "FactualAccuracy": f"{_HERE}.judging.factual_accuracy:FactualAccuracyMetric",
    "Json": f"{_HERE}.json_check:JsonMetric",
    "Length": f"{_HERE}.length:LengthMetric",
    "Meteor": f"{_HERE}.text_similarity:METEORMetric",
    "NotContains": f"{_HERE}.text_checks:NotContainsMetric",
    "NotRegex": f"{_HERE}.text_checks:NotRegexMetric",
    "Numeric": f"{_HERE}.deterministic:NumericMetric",
    "Quality": f"{_HERE}.judging.quality:QualityMetric",
    "Refusal": f"{_HERE}.judging.refusal:RefusalMetric",
    "Regex": f"{_HERE}.text_checks:RegexMetric",
    "Relevance": f"{_HERE}.judging.relevance:RelevanceMetric",
    "Retrieval": f"{_HERE}.retrieval:RetrievalMetric",
    "Rouge": f"{_HERE}.text_similarity:ROUGEMetric",
    "Similar": f"{_HERE}.similar:SimilarMetric",
    "StartsWith": f"{_HERE}.text_checks:StartsWithMetric",
    "ToolCorrectness": f"{_HERE}.tools.tool_correctness:ToolCorrectnessMetric",
    "Toxicity": f"{_HERE}.judging.toxicity:ToxicityMetric",
    "Trajectory": f"{_HERE}.tools.trajectory:TrajectoryMetric",
    "TrajectoryAccuracy": f"{_HERE}.judging.trajectory_accuracy:TrajectoryAccuracyMetric",
}
"""The core's metrics by public name, each as `module:name`."""


def public() -> "dict[str, str]":
    """Return all public metrics by name, including metrics of extensions, each as `module:name`."""
    from holodeck_action.seam import registry

    found = dict(PUBLIC)
    for module, names in registry.names():
        if module == _HERE:
            found |= names
    return found


def __getattr__(name: str) -> object:
    # Only classes have such names; the import system looks up others, such as `__path__`.
    source = (PUBLIC.get(name) or public().get(name)) if name[:1].isupper() else None
    if source is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from holodeck_action.seam import registry

    return registry.resolve(source)


def __dir__() -> "list[str]":
    return [*globals(), *public()]
