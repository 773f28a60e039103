"""Checks a statement against files and HEAD, without a network. Signatures are for `gh attestation verify`."""

from __future__ import annotations

import base64
from collections.abc import Sequence

import msgspec

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.report_formats.statement import Predicate, Statement, state
from holodeck_action.record.result_files import results_path
from holodeck_action.run.caller import Caller
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.suite.checkout import head_commit
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.foreign import Foreign, read_file
from holodeck_action.text.given_paths import GivenPath

_MOST_BYTES = 64_000_000
"""Maximum bytes of a signed statement. GitHub signs predicates of up to 16 MB, in base64."""


def check_statement(file: GivenPath, paths: Sequence[GivenPath], caller: Caller) -> int:
    """Print whether a statement is true of results and HEAD.

    Args:
        file: the statement, its DSSE envelope, or the Sigstore bundle around it.
        paths: a results file, or the folder of a run.
        caller: gets the sentence on its standard output; HEAD is that of its folder.

    Returns:
        0 if the statement is true and the run passed, 1 if the run did not pass, 3 if there is no HEAD to compare with.

    Raises:
        ConfigurationError: the statement is not true, or a file cannot be used.
    """
    if len(paths) != 1:
        raise ConfigurationError([f"{file}: is about one run; give one RESULTS"])
    results = results_path(paths[0])
    given, concluded, head = _read(file), read_conclusion(results), head_commit(caller.cwd)
    expected, commit = state(concluded, results), concluded.report.provenance.commit
    wrong = [
        f"is about another {each.name}; {results.parent / each.name} has the SHA-256 {each.digest['sha256']}"
        # GitHub signs digests of files alone; the commit is in the configuration.
        for each in expected.subject[:2]
        if each not in given.subject
    ]
    for name in Predicate.__struct_fields__:
        if getattr(given.predicate, name) != getattr(expected.predicate, name):
            wrong.append(f"has another {name} than {results.parent}")
    if head not in (None, commit):
        wrong.append(f"is about {f'the commit {commit}' if commit else 'an unknown commit'}, but HEAD is {head}")
    if wrong:
        raise ConfigurationError([f"{file}: {clause}" for clause in wrong])
    if head is None:
        caller.stdout.write(f"? {file}: no commit is checked out here, so that of the statement cannot be compared\n")
        return ExitCode.INCOMPLETE
    result = given.predicate.result
    caller.stdout.write(f"{'✗' if result == 'FAILED' else '✓'} {file}: {result}, true of {results} and HEAD {head}\n")
    return ExitCode.VIOLATED if result == "FAILED" else ExitCode.PASSED


def _read(file: GivenPath) -> Statement:
    try:
        content = read_file(file, _MOST_BYTES).json_object()
        envelope = content.get("dsseEnvelope", content)
        if "payload" in envelope:
            content = Foreign(base64.b64decode(envelope["payload"], validate=True)).json_object()
        return msgspec.convert(content, Statement, strict=True)
    except (OSError, TypeError, ValueError):
        raise ConfigurationError([f"{file}: is not a readable in-toto statement of a test result"]) from None
