"""Search for results files in folders of runs."""

from __future__ import annotations

import os
from collections.abc import Collection, Container

from holodeck_action.record.result_files import RESULTS_FILE, TABLES_FOLDER
from holodeck_action.suite.configuration_errors import ConfigurationError
from holodeck_action.text.given_paths import GivenPath


def results_name(folder_names: Container[str], file_names: Container[str]) -> str | None:
    """Return the name of the results in a run's folder: a file or a folder of tables; None if the folder has
    neither."""
    if RESULTS_FILE in file_names:
        return RESULTS_FILE
    return TABLES_FOLDER if TABLES_FOLDER in folder_names else None


def find_results(folder: GivenPath, skipped_names: Collection[str]) -> list[GivenPath]:
    """Return the paths of the results in a folder and its subfolders, sorted; a path that is not a folder is returned
    alone.

    Args:
        folder: the folder to search.
        skipped_names: names of folders to skip.

    Raises:
        ConfigurationError: the folder holds no results.
    """
    if not folder.path.is_dir() or folder.name == TABLES_FOLDER:
        return [folder]
    found: list[GivenPath] = []
    for here, folders, files in os.walk(folder.path):
        name = results_name(folders, files)
        if name is not None:
            found.append(folder.written_path(os.path.join(here, name)))
        folders[:] = sorted(each for each in folders if each not in skipped_names and each != TABLES_FOLDER)
    if not found:
        raise ConfigurationError([f"{folder}: holds no {RESULTS_FILE}; give the output folder of a run"])
    return sorted(found, key=lambda each: each.given)
