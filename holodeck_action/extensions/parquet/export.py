"""Implements `export --format parquet`."""

from __future__ import annotations

from holodeck_action.decide.exit_codes import ExitCode
from holodeck_action.extensions.parquet.parquet_tables import is_installed, write_tables
from holodeck_action.record.disk import DISK
from holodeck_action.record.result_files import read_results
from holodeck_action.run.caller import Caller
from holodeck_action.run.options.export_options import ExportOptions
from holodeck_action.seam.extras import way_to_get
from holodeck_action.suite.configuration_errors import ConfigurationError


def write_parquet(exporting: ExportOptions, caller: Caller) -> int:
    """Write a record as a folder of Parquet tables.

    Raises:
        ConfigurationError: the record is invalid, no folder is given, a required package is not installed, or the
            folder cannot be written.
    """
    stored = read_results(exporting.results)
    if exporting.file is None:
        raise ConfigurationError(["--format parquet writes a folder; name it with --output"])
    if not is_installed():
        raise ConfigurationError(
            [f"Parquet needs the Python package 'pyarrow', which is not installed; {way_to_get('parquet')}"]
        )
    try:
        write_tables(exporting.file.path, stored.record, caller.disk or DISK)
    except OSError as error:
        raise ConfigurationError([f"{exporting.file}: cannot be written: {error.strerror}"]) from error
    return ExitCode.PASSED
