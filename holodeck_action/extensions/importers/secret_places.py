"""Secrets in what an import would write: where they are in the imported files, and what to write in their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holodeck_action.extensions.importers.source import Source, UnfitError
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

_SHOWN = 10
"""Places that are named."""


def secret_problems(
    files: Mapping[str, str], source: Source, read: Sequence[Path], way_out: str, environ: Mapping[str, str]
) -> list[str]:
    """Return why files must not be written: each place of a secret's value; empty if they hold none.

    A mask would change what a case asks or compares with, so nothing is masked.

    Args:
        files: names and texts of the files to write.
        source: the imported file.
        read: the files that it names and that were read.
        way_out: what to write in the place of a value, with `NAME` for the name of its variable.
        environ: the job's environment.
    """
    redactor = Redactor(environment_secrets(environ))
    held = {name: text for name, text in files.items() if redactor.text(f"{name}\n{text}") != f"{name}\n{text}"}
    if not held:
        return []
    imported = {source.shown: source.content().lossy_text()}
    for path in read:
        # One that has changed meanwhile is not searched.
        with suppress(UnfitError):
            imported[source.relative(path)] = source.text(path)
    secrets = _by_variable(environ)
    # A value that only the conversion puts together is in no line of what was imported.
    found = list(_places(imported, secrets)) or list(_places(held, secrets)) or [(next(iter(held)), "")]
    problems = [
        f"{place}: holds the value of {name or 'a secret variable'}; nothing was written: "
        f"{way_out.replace('NAME', name or 'NAME')}"
        for place, name in found[:_SHOWN]
    ]
    more = len(found) - _SHOWN
    return [*problems, f"{more} more places hold a secret"] if more > 0 else problems


def _by_variable(environ: Mapping[str, str]) -> dict[str, Redactor]:
    each = {name: environment_secrets({name: value}) for name, value in environ.items()}
    return {name: Redactor(secrets) for name, secrets in each.items() if secrets}


def _places(texts: Mapping[str, str], secrets: Mapping[str, Redactor]) -> Iterator[tuple[str, str]]:
    """Yield each line that holds the value of a variable, as `file:line` and the variable's name."""
    holding = {
        file: [(name, redactor) for name, redactor in secrets.items() if redactor.text(text) != text]
        for file, text in texts.items()
    }
    for file, named in holding.items():
        for number, line in enumerate(texts[file].splitlines() if named else (), 1):
            for name, redactor in named:
                if redactor.text(line) != line:
                    yield f"{file}:{number}", name
