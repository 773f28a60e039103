"""Finds secrets, and what looks like a key, in the files that an import would write, and their positions in the
imported files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from holodeck_action.extensions.importers.source import Source, UnfitError
from holodeck_action.text.given_paths import GivenPath
from holodeck_action.text.redaction import Redactor
from holodeck_action.text.secrets import environment_secrets

_ANY = "a secret variable"
_LISTED = 10
"""Most positions to list."""


def secret_problems(
    files: Mapping[GivenPath, str], source: Source, source_paths: Sequence[str], remedy: str, environ: Mapping[str, str]
) -> list[str]:
    """Return an error message for each occurrence of a secret or of what looks like a key; empty if the files to write
    contain none.

    Nothing is masked, since a mask would change inputs and expected values.

    Args:
        files: contents of the files to write, by path.
        source: the imported file.
        source_paths: files that were read because the imported file refers to them.
        remedy: advice on what to write instead of a secret; `NAME` is replaced by the variable's name.
        environ: the job's environment.
    """
    redactor = Redactor(environment_secrets(environ))
    held = {str(path): text for path, text in files.items() if (said := f"{path}\n{text}") != redactor.text(said)}
    if not held:
        return []
    imported = {source.shown: source.content().lossy_text()} if source.path.is_file() else {}
    for path in map(Path, source_paths):
        # A file that was deleted or changed since the import read it is skipped.
        with suppress(UnfitError):
            imported[source.relative(path)] = source.text(path)
    secrets = _redactors(environ)
    # A value that the conversion joined from several texts is on no line of the imported files.
    found = list(_secret_lines(imported, secrets)) or list(_secret_lines(held, secrets)) or [(next(iter(held)), _ANY)]
    problems = [
        f"{place}: holds {f'the value of {name}' if name else 'what looks like a key'}; nothing was written: "
        f"{remedy.replace('NAME', name if name.isidentifier() else 'NAME')}"
        for place, name in found[:_LISTED]
    ]
    more = len(found) - _LISTED
    return [*problems, f"{more} more places hold a secret"] if more > 0 else problems


def _redactors(environ: Mapping[str, str]) -> dict[str, Redactor]:
    each = {name: environment_secrets({name: value}) for name, value in environ.items()}
    return {name: Redactor(secrets).declared for name, secrets in each.items() if secrets} | {"": Redactor(())}


def _secret_lines(texts: Mapping[str, str], secrets: Mapping[str, Redactor]) -> Iterator[tuple[str, str]]:
    """Yield `file:line` and the variable's name for each line that contains the value of a secret variable; an empty
    name for a line that only contains what looks like a key."""
    holding = {
        file: [(name, redactor) for name, redactor in secrets.items() if redactor.text(text) != text]
        for file, text in texts.items()
    }
    for file, named in holding.items():
        for number, line in enumerate(texts[file].splitlines() if named else (), 1):
            names = [name for name, redactor in named if redactor.text(line) != line]
            yield from ((f"{file}:{number}", name) for name in names if name or names == [""])
