"""Build the list of words by which a password of words is told from a random key.

    python -m scripts.build_word_list holodeck_action/text/data/words.txt

The words are those of METEOR's table (see `build_wordnet_table`), of which only the letters are taken, and some that
passwords and settings are made of. A word that holds another one is left out: whoever looks for words in a value finds
the shorter one. The same table gives the same bytes.
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


def minimal(words: Iterable[str]) -> list[str]:
    """Return the words that hold no shorter word of the list, sorted."""
    kept: set[str] = set()
    for word in sorted(set(words), key=lambda each: (len(each), each)):
        parts = (word[i:j] for i in range(len(word)) for j in range(i + SHORTEST, len(word) + 1))
        if not any(part in kept for part in parts):
            kept.add(word)
    return sorted(kept)


def words_of(table: Path) -> set[str]:
    """Return the words of METEOR's table, and what hyphens and blanks separate in them."""
    lines = gzip.decompress(table.read_bytes()).decode("ascii").split("\n")
    return {word for at in range(0, len(lines), 4) for word in re.findall(r"[a-z]{6,}", lines[at].lower())}


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
def main(path: Path) -> None:
    """Write the list to PATH."""
    text = "\n".join(minimal(words_of(TABLE) | {word for word in OTHERS if len(word) >= SHORTEST}))
    path.write_text(f"{text}\n", encoding="ascii")


if __name__ == "__main__":
    main()
