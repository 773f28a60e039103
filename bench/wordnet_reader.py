"""NLTK's WordNet reader for the dictionary files of Debian's package `wordnet-base`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path
from typing import Any

DEBIAN_DIRECTORY = Path("/usr/share/wordnet")


def wordnet_reader(directory: Path) -> Any:
    """Return a `WordNetCorpusReader` for `directory`.

    Debian's package lacks two files that NLTK reads: `lexnames` (the names of the 45 lexicographer files, of which
    synsets only use the number) and `index.sense` (only used to map other WordNet versions to this one).
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
    # The second argument is a reader for other languages; a non-empty value avoids NLTK's warning about its absence.
    return Reader(str(directory), "no other languages")
