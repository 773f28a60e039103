"""The WordNet table: its builder on a small dictionary, and the shipped one."""

from __future__ import annotations

import gzip
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

from holodeck_action.metrics.text.meteor import synonyms
from tests.tables import walk

ROOT = Path(__file__).parents[2]

_DICTIONARY = {
    "data.noun": (
        "  1 A licence line begins with spaces.\n"
        "00000010 05 n 03 dog 0 domestic_dog 0 Canis 0 000 | a pet\n"
        "00000020 05 n 02 cad 0 dog 1 001 @ 00000010 n 0000 | a man\n"
        "00000030 05 n 01 New_York 0 000 | a city\n"
    ),
    "data.verb": "00000010 38 v 02 run 0 go 0 000 01 + 02 00 | move\n",
    "data.adj": "00000010 00 a 0a big(a) 0 large(ip) 0 b 0 c 0 d 0 e 0 f 0 g 0 h 0 i 0 000 | ten names\n",
    "data.adv": "00000010 02 r 01 fast 0 000 | quick\n",
    "noun.exc": "children child\nmice first\nmice mouse\n",
    "verb.exc": "ran run\n",
    "adj.exc": "",
    "adv.exc": "best well good\n",
}


def _build(directory: Path, output: Path) -> bytes:
    command = [sys.executable, "-m", "scripts.build_wordnet_table", str(directory), str(output)]
    subprocess.run(command, check=True, cwd=ROOT, timeout=60)
    return output.read_bytes()


def test_the_builder_writes_words_names_and_exceptions_per_part_of_speech(tmp_path: Path) -> None:
    for name, text in _DICTIONARY.items():
        (tmp_path / name).write_text(text)
    built = _build(tmp_path, tmp_path / "first.gz")
    adjectives = "b big c d e f g h i large"
    assert gzip.decompress(built).decode().split("\n") == [
        *("cad\tcanis\tdog\tdomestic_dog", "cad dog\tdog\tcad dog\tdog", "children\tmice", "child\tmouse"),
        *("go\trun", "go run\tgo run", "ran", "run"),
        *(adjectives.replace(" ", "\t"), "\t".join([adjectives] * 10), "", ""),
        *("fast", "fast", "best", "well good"),
    ]
    assert _build(tmp_path, tmp_path / "second.gz") == built


@walk(
    ("word", "among", "not_among"),
    [
        ("car", {"automobile", "auto", "machine", "railcar"}, {"dog"}),
        ("cars", {"automobile"}, set()),
        ("ran", {"run", "go", "race"}, set()),
        ("wolves", {"wolf", "beast"}, set()),
        ("bigger", {"large", "big"}, set()),
        ("paris", set(), {"Paris", "paris"}),
        ("new_york", set(), {"new_york"}),
        ("ice_cream", {"icecream"}, {"ice_cream"}),
        ("qwertz", set(), {"qwertz"}),
        ("", set(), {""}),
    ],
)
def test_synonyms_of_the_shipped_table(word: str, among: set[str], not_among: set[str]) -> None:
    assert among <= synonyms[word]
    assert not not_among & synonyms[word]


def test_the_licence_stands_beside_the_table() -> None:
    licence = files("holodeck_action.metrics").joinpath("data", "LICENSE.WordNet").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University.  All rights reserved." in licence
    assert "the same appear on ALL copies" in " ".join(licence.split())
