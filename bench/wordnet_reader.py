"""NLTK's own WordNet reader on the dictionary files of Debian's package `wordnet-base`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

DEBIAN_DIRECTORY = Path("/usr/share/wordnet")


def wordnet_reader(directory: Path) -> Any:
    """A `WordNetCorpusReader` on `directory`.

    Debian leaves out two files that NLTK wants: `lexnames` (the names of the 45 lexicographer files, of which only the
    number matters to synsets) and `index.sense` (asked for only to map other WordNet versions onto this one).
    """
    import nltk.data
    from nltk.corpus.reader.wordnet import WordNetCorpusReader

    class Reader(WordNetCorpusReader):  # type: ignore[misc]
        def open(self, file: str) -> Any:
            if file == "lexnames":
                return StringIO("".join(f"{number:02}\tfile{number:02}\t0\n" for number in range(45)))
            return super().open(file)

        def map_wn(self, version: str = "wordnet") -> None:
            return None

    nltk.data.path.append(str(directory))
    # The second argument is a reader for other languages; a non-empty value keeps NLTK from warning about its absence.
    return Reader(str(directory), "no other languages")
