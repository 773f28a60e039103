"""Generates answers and references that overlap as real ones do: in words, stems and synonyms, in another order.

The references are random words, or texts that people wrote: the descriptions of the installed packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import distributions
from random import Random

from holodeck_action.metrics.text.meteor import synonyms

_FUNCTION_TEXT = (
    "the of and to a in is that for it as with on by this from at be are an or not have was can which will if has"
    " their its when all more there one about into than other only also after you your we our they but any must"
    " may should who"
)
_FUNCTION_WORDS = _FUNCTION_TEXT.split()
_CONTENT_TEXT = (
    "order refund customer account payment invoice delivery parcel address change cancel request answer question"
    " price discount product return policy day week month year time number name phone mail message support agent"
    " service team manager office shop store buy sell pay charge cost money bank card credit debit balance"
    " transfer amount total tax percent rate interest loan income profit loss revenue growth market share stock"
    " report quarter increase decrease large small big little quick fast slow early late new old good bad high low"
    " long short easy hard difficult simple start begin end finish stop close open send receive give take bring"
    " carry keep hold leave arrive reach travel trip car train plane ship road street city town country house home"
    " room door window table chair book paper letter word language text page file image picture screen device"
    " machine engine tool system program computer network server error fault problem issue fix repair solve"
    " explain describe show display find search look see watch hear listen speak talk say tell ask help assist"
    " guide teach learn study school student teacher child man woman person people family friend doctor hospital"
    " medicine drug patient illness pain health food meal bread water drink coffee fruit weather rain snow wind"
    " storm sun heat cold summer winter morning evening night law rule contract agreement court judge lawyer right"
    " duty claim evidence proof fact truth idea thought plan project goal purpose reason cause effect result"
    " outcome success failure risk danger safety protect defend attack fight war peace power force energy light"
    " speed distance weight size colour red blue green black white happy sad angry afraid brave kind polite"
    " careful wise approve reject accept refuse permit forbid allow deny confirm verify check test measure count"
    " calculate compute compare choose select decide prefer want need wish hope believe know understand remember"
    " forget notice recognise build make create produce design develop improve repair destroy break cut join"
    " connect separate divide combine"
)
_CONTENT_WORDS = _CONTENT_TEXT.split()
_ENDINGS = ("s", "ed", "ing", "ly", "er", "ment", "ation", "'s")
_EXTRAS = (
    *("3.5%", "1,250.00", "2024-11-03", "GPT-4", "(see below)", '"exactly"'),
    *("https://example.org/a?b=1", "don't", "e-mail"),
)


def _word(random: Random) -> str:
    kind = random.random()
    if kind < 0.45:
        # The square makes the first words more frequent, as in natural text.
        return _FUNCTION_WORDS[int(len(_FUNCTION_WORDS) * random.random() ** 2)]
    word = _CONTENT_WORDS[int(len(_CONTENT_WORDS) * random.random())]
    if kind < 0.60:
        return word + _ENDINGS[int(len(_ENDINGS) * random.random())]
    if kind < 0.63:
        return _EXTRAS[int(len(_EXTRAS) * random.random())]
    return word


def _sentences(words: list[str], random: Random) -> str:
    """Return the words as sentences of 6 to 20 words, with capitals, commas and full stops."""
    text: list[str] = []
    left = 0
    for number, word in enumerate(words):
        if not left:
            left = 6 + int(15 * random.random())
            word = word.capitalize()
        left -= 1
        if not left or number == len(words) - 1:
            word += "." if random.random() < 0.9 else "?"
            left = 0
        elif random.random() < 0.06:
            word += ","
        text.append(word)
    return " ".join(text)


def _paraphrase(words: list[str], random: Random) -> list[str]:
    """Return the words with synonyms, other endings, omissions, insertions and swapped neighbours."""
    closeness = random.random()
    text: list[str] = []
    for word in words:
        kind = random.random() * (0.35 + closeness)
        if kind < 0.08:
            names = sorted(synonyms[word])
            text.append(names[int(len(names) * random.random())] if names else word)
        elif kind < 0.14:
            text.append(word + _ENDINGS[int(len(_ENDINGS) * random.random())])
        elif kind < 0.20:
            text.append(_word(random))
        elif kind < 0.24 and text:
            text.insert(-1, word)
        elif kind < 0.28:
            text += [word, _word(random)]
        elif kind >= 0.32:
            text.append(word)
    return text or words


def paraphrase_pairs(count: int, *, words: tuple[int, int], seed: int) -> list[tuple[str, str]]:
    """Return `count` pairs of response and reference; references have between `words[0]` and `words[1]` words."""
    random = Random(seed)
    pairs = []
    for _ in range(count):
        length = words[0] + int((words[1] - words[0] + 1) * random.random())
        reference = [_word(random) for _ in range(length)]
        response = _paraphrase(reference, random)
        pairs.append((_sentences(response, random), _sentences(reference, random)))
    return pairs


_PARAGRAPH = 60
"""Number of words of a paragraph of a description."""


def real_pairs(count: int, *, seed: int) -> list[tuple[str, str]]:
    """Return `count` pairs of response and reference; references are paragraphs of descriptions of installed packages.

    Raises:
        ValueError: the installed packages have fewer paragraphs.
    """
    random = Random(seed)
    # A suite would read ${NAME} as a variable.
    paragraphs = [words for words in dict.fromkeys(_paragraphs()) if "${" not in " ".join(words)]
    random.shuffle(paragraphs)
    if len(paragraphs) < count:
        raise ValueError(f"the descriptions of the installed packages have {len(paragraphs)} of {count} paragraphs")
    return [(" ".join(_paraphrase([*words], random)), " ".join(words)) for words in paragraphs[:count]]


def _paragraphs() -> Iterator[tuple[str, ...]]:
    """Yield the words of each paragraph, in the order of the packages' names."""
    for package in sorted(distributions(), key=lambda each: each.name.lower()):
        words = package.metadata["Description"].split() if "Description" in package.metadata else []
        for start in range(0, len(words) - _PARAGRAPH + 1, _PARAGRAPH):
            yield tuple(words[start : start + _PARAGRAPH])
