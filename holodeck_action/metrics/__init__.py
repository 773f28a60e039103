"""Metrics: their settings, as classes for Python code, and their scoring.

Each class has the settings of the suite entries with the same `type`. `holodeck_action.score` scores with its
instances. Classes are imported on demand. Extensions declare further classes of `holodeck_action.metrics` in their
manifests.
"""


def public() -> "dict[str, str]":
    """Return all public metrics by name, including metrics of extensions, each as `module:name`."""
    from holodeck_action.metrics.registry import public_names
    from holodeck_action.seam import registry

    found = public_names()
    for module, names in registry.names():
        if module == __name__:
            found |= names
    return found


def __getattr__(name: str) -> object:
    from holodeck_action.metrics.registry import find_public

    # Only classes have such names; the import system looks up others, such as `__path__`.
    if name[:1].isupper():
        found = find_public(name)
        if found is not None:
            return found
        from holodeck_action.seam import registry

        if (source := public().get(name)) is not None:
            return registry.resolve(source)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> "list[str]":
    return [*globals(), *public()]
