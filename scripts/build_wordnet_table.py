"""Builds METEOR's table of synonyms from the WordNet 3.0 dictionary files.

    python -m scripts.build_wordnet_table /usr/share/wordnet holodeck_action/metrics/data/wordnet30.txt.gz

The directory is that of Debian's package `wordnet-base`, with `data.*` and `*.exc` in the formats of the manual pages
wndb(5WN) and morphy(7WN). The same dictionary gives the same bytes. `LICENSE.WordNet` next to the table must be
distributed with it.

The table is compressed text of sixteen lines: for noun, verb, adjective and adverb in turn

1. the words, and
2. for each word the names in all its synsets (a word of that part of speech may be among its own names),
3. the irregular inflected forms, and
4. for each of them its base forms;

the entries of a line are separated by tabs, the words of an entry by spaces. METEOR compares lower-case words and
passes over names with an underscore, so only lower-case names of one word are kept, and only words that have any.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import click

PARTS_OF_SPEECH = ("noun", "verb", "adj", "adv")
_SYNTACTIC_MARKER = re.compile(r"\((?:a|p|ip)\)$")


def _synsets(path: Path) -> Iterator[list[str]]:
    """Yield the names of each synset; a line has: offset, file number, type, word count (hex), name, id, …"""
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith(" "):
            fields = line.split(" ")
            last = 4 + 2 * int(fields[3], 16)
            yield [_SYNTACTIC_MARKER.sub("", name) for name in fields[4:last:2]]


def _names(path: Path) -> dict[str, set[str]]:
    """Return the lower-case one-word names in all synsets of each word of a `data.*` file, by word in lower case."""
    names: dict[str, set[str]] = {}
    for synset in _synsets(path):
        kept = {name for name in synset if "_" not in name and name == name.lower()}
        for word in synset if kept else ():
            names.setdefault(word.lower(), set()).update(kept)
    return names


def _exceptions(path: Path) -> dict[str, list[str]]:
    """Return the base forms of each inflected form in an `*.exc` file; the last line for a form counts."""
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {words[0]: words[1:] for words in lines}


def table(directory: Path) -> str:
    """Return the text of the table for the dictionary files in `directory`."""
    lines = []
    for part in PARTS_OF_SPEECH:
        names = sorted(_names(directory / f"data.{part}").items())
        exceptions = sorted(_exceptions(directory / f"{part}.exc").items())
        lines += ["\t".join(word for word, _ in names), "\t".join(" ".join(sorted(found)) for _, found in names)]
        lines += ["\t".join(form for form, _ in exceptions), "\t".join(" ".join(bases) for _, bases in exceptions)]
    return "\n".join(lines)


@click.command()
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
def main(directory: Path, output: Path) -> None:
    """Write the table for the WordNet dictionary files in DIRECTORY to OUTPUT."""
    output.write_bytes(gzip.compress(table(directory).encode("ascii"), compresslevel=9, mtime=0))


if __name__ == "__main__":
    main()
