"""`export`: converts a record to another format, without running anything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holodeck_action.commands.command_classes import format_options
from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.record.canonical import record_digest
from holodeck_action.record.result_files import read_results, sealed_record
from holodeck_action.reports.written import write_pieces
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.export_options import ExportOptions
from holodeck_action.run.viewed import read_conclusion
from holodeck_action.seam import registry
from holodeck_action.suite.configuration_errors import ConfigurationError


def export_record(format_name: str, values: Mapping[str, Any], caller: Caller) -> int:
    """Write a record in a format.

    Args:
        format_name: name of the format.
        values: the command line's values by parameter name.
        caller: gets the document on its standard output if no file is named.

    Raises:
        ConfigurationError: the record cannot be used, an option belongs to another format, or the document cannot be
            written.
    """
    made = registry.formats().get(format_name)
    own = {option.name for option in format_options(format_name)}
    others = [option for name in registry.formats() for option in format_options(name) if option.name not in own]
    useless = [option.opts[0] for option in others if values[str(option.name)]]
    if useless:
        raise ConfigurationError(
            [f"--format {format_name} does not take options of other formats; leave out {', '.join(useless)}"]
        )
    options = ExportOptions(values["results"], values["file"], {str(name): values[str(name)] for name in own})
    if made is not None and made.write:
        code: int = registry.resolve(made.write)(options, caller)
        return code
    if made is not None:
        document = registry.resolve(made.render)(read_conclusion(options.results), options.results)
    else:
        stored = read_results(options.results)
        document = sealed_record(stored.record, stored.record_digest or record_digest(stored.record))
    write_pieces(document, options.file, caller.stdout)
    return ExitCode.PASSED
