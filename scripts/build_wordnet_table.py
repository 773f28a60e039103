"""Build the synonym table behind METEOR from the WordNet 3.0 dictionary files.

    python -m scripts.build_wordnet_table /usr/share/wordnet holodeck_action/metrics/data/wordnet30.txt.gz

The directory is the one of Debian's package `wordnet-base`: `data.*` and `*.exc` in the formats of the manual pages
wndb(5WN) and morphy(7WN). The same dictionary gives the same bytes. `LICENSE.WordNet` stands beside the table and goes
wherever the table goes.

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
    """The names of each synset of a `data.*` file: offset, file number, type, word count (hexadecimal), name, id, …"""
    for line in path.read_text(encoding="ascii").splitlines():
        if not line.startswith(" "):
            fields = line.split(" ")
            last = 4 + 2 * int(fields[3], 16)
            yield [_SYNTACTIC_MARKER.sub("", name) for name in fields[4:last:2]]


def _names(path: Path) -> dict[str, set[str]]:
    """Each word of a `data.*` file, in lower case, with the lower-case one-word names of all its synsets."""
    names: dict[str, set[str]] = {}
    for synset in _synsets(path):
        kept = {name for name in synset if "_" not in name and name == name.lower()}
        for word in synset if kept else ():
            names.setdefault(word.lower(), set()).update(kept)
    return names


def _exceptions(path: Path) -> dict[str, list[str]]:
    """The inflected forms of an `*.exc` file with their base forms; of several lines for one form the last counts."""
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return {words[0]: words[1:] for words in lines}


def table(directory: Path) -> str:
    """The text of the table for the dictionary files in `directory`."""
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
