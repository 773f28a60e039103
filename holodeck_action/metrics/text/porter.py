"""The Porter stemmer with the extensions that NLTK's `PorterStemmer` applies by default.

Source of the rules: M. F. Porter, "An algorithm for suffix stripping", Program 14.3 (1980), and the deviations
documented for NLTK's `NLTK_EXTENSIONS` mode. Reimplemented because the library takes half a second to import and
examines every word letter by letter. Here each word has a shape, one `c` (consonant) or `v` (vowel) per letter, so that
Porter's measure m is a substring count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

V = TypeVar("V")

_MAX_ENTRIES = 1 << 16
_MAX_KEY_CHARS = 64


class WordCache(dict[str, V]):
    """A cache of a function of words: `memo[word]` is `function(word)`, cached for words of ordinary length.

    Because texts are untrusted, memory is bounded: keys longer than 64 characters are not cached, and at 65,536 entries
    the cache is cleared. It is thread-safe: every operation is one atomic dict operation, and `function` is pure.
    """

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], V]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, key: str) -> V:
        value = self._function(key)
        if len(key) <= _MAX_KEY_CHARS:
            if len(self) >= _MAX_ENTRIES:
                self.clear()
            self[key] = value
        return value


_IRREGULAR = {
    "sky": "sky",
    "skies": "sky",
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "news": "news",
    "innings": "inning",
    "inning": "inning",
    "outings": "outing",
    "outing": "outing",
    "cannings": "canning",
    "canning": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}

_STEP_2 = {
    "ational": "ate",
    "tional": "tion",
    "enci": "ence",
    "anci": "ance",
    "izer": "ize",
    "bli": "ble",
    "alli": "al",
    "entli": "ent",
    "eli": "e",
    "ousli": "ous",
    "ization": "ize",
    "ation": "ate",
    "ator": "ate",
    "alism": "al",
    "iveness": "ive",
    "fulness": "ful",
    "ousness": "ous",
    "aliti": "al",
    "iviti": "ive",
    "biliti": "ble",
    "fulli": "ful",
    "logi": "log",
}

_STEP_3 = {"icate": "ic", "ative": "", "alize": "al", "iciti": "ic", "ical": "ic", "ful": "", "ness": ""}


class _Shapes(dict[int, str]):
    """The translation table from letters to shapes; letters that are not vowels are consonants."""

    def __missing__(self, key: int) -> str:
        return "c"


# All of ASCII is listed, so that only other letters need the slower `__missing__`.
_SHAPES = _Shapes({code: "v" if chr(code) in "aeiou" else "y" if chr(code) == "y" else "c" for code in range(128)})


def _shape(word: str) -> str:
    """Return one `c` or `v` per character; a `y` is a consonant at the start and after a vowel, otherwise a vowel."""
    shape = word.translate(_SHAPES)
    if "y" not in shape:
        return shape
    flags: list[str] = []
    before = "v"
    for flag in shape:
        before = flag if flag != "y" else "c" if before == "v" else "v"
        flags.append(before)
    return "".join(flags)


def _ends_cvc(word: str, shape: str) -> bool:
    """Return whether a word meets Porter's condition *o, which NLTK extends to words of one vowel and one consonant."""
    return (shape.endswith("cvc") and word[-1] not in "wxy") or shape == "vc"


def _longest_first(rules: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(rules, key=lambda suffix: (-len(suffix), suffix)))


def _matching_suffix(word: str, suffixes: tuple[str, ...]) -> str:
    """Return the first of `suffixes` with which `word` ends, or an empty string."""
    if not word.endswith(suffixes):
        return ""
    return next(filter(word.endswith, suffixes))


_STEP_2_SUFFIXES = _longest_first(_STEP_2)
_STEP_3_SUFFIXES = _longest_first(_STEP_3)
_STEP_4_SUFFIXES = _longest_first(
    (
        *("al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent"),
        *("ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"),
    )
)


def _step_1a(word: str) -> str:
    if not word.endswith("s"):
        return word
    if word.endswith("ies"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("ss"):
        return word
    return word[:-2] if word.endswith("sses") else word[:-1]


def _step_1b(word: str) -> str:
    if word.endswith("ied"):
        return word[:-1] if len(word) == 4 else word[:-2]
    if word.endswith("eed"):
        return word[:-1] if "vc" in _shape(word[:-3]) else word
    if word.endswith("ed"):
        stem = word[:-2]
    elif word.endswith("ing"):
        stem = word[:-3]
    else:
        return word
    shape = _shape(stem)
    if "v" not in shape:
        return word
    if stem.endswith(("at", "bl", "iz")):
        return stem + "e"
    if len(stem) > 1 and stem[-1] == stem[-2] and shape[-1] == "c":
        return stem if stem[-1] in "lsz" else stem[:-1]
    return stem + "e" if shape.count("vc") == 1 and _ends_cvc(stem, shape) else stem


def _step_2(word: str, shape: str) -> str:
    suffix = _matching_suffix(word, _STEP_2_SUFFIXES)
    if not suffix:
        return word
    cut = len(word) - len(suffix)
    # For "logi" the l counts as part of the stem, so that "geo" and "theo" are long enough.
    if "vc" not in shape[: cut + 1 if suffix == "logi" else cut]:
        return word
    shorter = word[:cut] + _STEP_2[suffix]
    # "alli" leaves an "al" to which the step applies once more ("-ationalli").
    return _step_2(shorter, shape[: len(shorter)]) if suffix == "alli" else shorter


def _step_3(word: str) -> str:
    suffix = _matching_suffix(word, _STEP_3_SUFFIXES)
    if not suffix:
        return word
    stem = word[: -len(suffix)]
    return stem + _STEP_3[suffix] if "vc" in _shape(stem) else word


def _step_4(word: str) -> str:
    suffix = _matching_suffix(word, _STEP_4_SUFFIXES)
    if not suffix:
        return word
    stem = word[: -len(suffix)]
    if _shape(stem).count("vc") < 2 or (suffix == "ion" and stem[-1] not in "st"):
        return word
    return stem


def _step_5(word: str) -> str:
    if word.endswith("e"):
        stem = word[:-1]
        shape = _shape(stem)
        measure = shape.count("vc")
        if measure > 1 or (measure == 1 and not _ends_cvc(stem, shape)):
            word = stem
    if word.endswith("ll") and _shape(word[:-1]).count("vc") > 1:
        return word[:-1]
    return word


def stem(word: str) -> str:
    """Return the stem of a token, equal to NLTK's `PorterStemmer().stem(word)` for tokens without an asterisk."""
    lower = word.lower()
    if lower in _IRREGULAR:
        return _IRREGULAR[lower]
    if len(word) <= 2:
        return lower
    lower = _step_1b(_step_1a(lower))
    shape = _shape(lower)
    if lower.endswith("y") and shape[-2:] in ("cc", "cv") and len(lower) > 2:
        lower = lower[:-1] + "i"
        shape = shape[:-1] + "v"
    return _step_5(_step_4(_step_3(_step_2(lower, shape))))


stems: WordCache[str] = WordCache(stem)
"""`stems[word]` is `stem(word)`, cached."""
