"""Builds the list of words that distinguishes passwords made of words from random keys.

    python -m scripts.build_word_list holodeck_action/text/data/words.txt

The words are the letters of those in METEOR's table (see `build_wordnet_table`), and some that are common in passwords
and settings. A word that contains another one is left out, since a search finds the shorter one. The same table gives
the same bytes.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterable
from pathlib import Path

import click

SHORTEST = 6
TABLE = Path("holodeck_action/metrics/data/wordnet30.txt.gz")
OTHERS = [
    "apikey",
    "bearer",
    "changeme",
    "config",
    "dragon",
    "github",
    "gitlab",
    "google",
    "iloveyou",
    "kubernetes",
    "laptop",
    "letmein",
    "localhost",
    "mongodb",
    "openai",
    "passwd",
    "password",
    "postgres",
    "qwerty",
    "shadow",
    "staging",
    "testing",
    "webhook",
    "welcome",
    "anthropic",
]


def minimal_words(words: Iterable[str]) -> list[str]:
    """Return the words that contain no shorter word of the list, sorted."""
    kept: set[str] = set()
    for word in sorted(set(words), key=lambda each: (len(each), each)):
        parts = (word[i:j] for i in range(len(word)) for j in range(i + SHORTEST, len(word) + 1))
        if not any(part in kept for part in parts):
            kept.add(word)
    return sorted(kept)


def words_of(table: Path) -> set[str]:
    """Return the words of METEOR's table in lower case, split at hyphens and blanks."""
    lines = gzip.decompress(table.read_bytes()).decode("ascii").split("\n")
    return {word for at in range(0, len(lines), 4) for word in re.findall(r"[a-z]{6,}", lines[at].lower())}


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def main(path: Path) -> None:
    """Write the list to PATH."""
    text = "\n".join(minimal_words(words_of(TABLE) | {word for word in OTHERS if len(word) >= SHORTEST}))
    path.write_text(f"{text}\n", encoding="ascii")


if __name__ == "__main__":
    main()
