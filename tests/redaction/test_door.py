"""Secrets are masked however they are written, random ones wherever they are cut, and at the same places."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holodeck_action.text.key_forms import find_keys
from holodeck_action.text.plain import excerpt, lines_of, one_line
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.views import (
    COLOURS,
    ESCAPES,
    TAGS,
    TERMINAL,
    Decoder,
    OriginalPositions,
    bare,
    compact,
    layers,
    plain,
)
from tests.redaction.planting import ENCODINGS, INVISIBLE, KEYS, leaked, pieces_of
from tests.tables import walk

# Signs that JSON, Python, URLs and HTML write differently, those of base64, and words beside each other.
RANDOM = (
    "sk-7Lq2zV/mZ8dxK+4711Rt?>~_Qx",
    "kR4\"tW9\\x1812bQ<&>'z7Lm",
    "Grüße-x7K-4711-Ωq",
)
SECRETS = (
    *RANDOM,
    "Bearer planted header 8842",
    "hunter2-pw",
    "planted\nwarehouse line 2445",
)
DOOR = Redactor(SECRETS)
PIECES = {secret: pieces_of(secret.removeprefix("Bearer ")) for secret in SECRETS}
AROUND = st.text(st.sampled_from("ab 1\n\"'&\\%</…é\u200b"), max_size=12)


def passed(text: str) -> str:
    """What a reader gets: through the door, then through the renderers."""
    clean = DOOR.text(text)
    # The letters, which no secret has, keep the end of one from making a piece with the beginning of the next.
    return "\nжж\n".join((clean, one_line(clean), lines_of(clean, wrapped=True), json.dumps(clean), repr(clean)))


@walk(("secret", "encoding"), product(SECRETS, ENCODINGS))
def test_every_encoding_is_seen_through(secret: str, encoding: str) -> None:
    written = ENCODINGS[encoding](secret)
    if encoding in ("lines", "U+0085") and len(secret) < 12:
        return  # a short secret is a word of sentences when it is broken in two
    for text in (written, f"it is {written}, is it?", json.dumps({"said": f"<{written}>"})):
        found = passed(text)
        assert MASK in found, text
        assert leaked(found, PIECES[secret]) == [], found


@given(st.sampled_from(RANDOM), st.sampled_from(sorted(ENCODINGS)), AROUND, AROUND, st.data())
def test_no_piece_is_left_at_a_cut(secret: str, encoding: str, before: str, after: str, data: st.DataObject) -> None:
    """Texts are cut at both ends before they come to the door."""
    text = before + ENCODINGS[encoding](secret) + after
    start = data.draw(st.integers(0, len(text)), label="start")
    end = data.draw(st.integers(start, len(text)), label="end")
    mark = data.draw(st.sampled_from(("", "…", "...", " … (300 characters)")), label="mark")
    kept = (mark.strip()[:3].strip(" (") if start else "") + text[start:end] + (mark if end < len(text) else "")
    for shown in (kept, f"the answer {kept!r} is wrong", json.dumps({"kept": kept})):
        assert leaked(passed(shown), PIECES[secret]) == []
    if start == 0:
        assert leaked(passed(f"'{text[:end]}'{mark}"), PIECES[secret]) == []


@given(
    st.text(st.characters(categories=("Lu", "Ll", "Nd", "Pd", "Po", "Sm")), min_size=12, max_size=30).filter(
        lambda text: all(map(compact, text))
    ),
    st.sampled_from(INVISIBLE),
    st.integers(1, 7),
)
def test_no_invisible_character_hides_any_secret(secret: str, separator: str, every: int) -> None:
    text = separator.join(secret[at : at + every] for at in range(0, len(secret), every))
    masked = Redactor([secret]).text(f"({text})")
    assert MASK in masked
    assert bare(masked) == ""


@given(st.text(st.sampled_from("aé½Ｆ\u200b \n\\u00e9%41&amp;x\x00\ud800…\x1b[1m<b>"), max_size=40))
def test_places_are_those_of_the_quick_view(text: str) -> None:
    for steps, layer in layers(text):
        for projection in (plain, compact, bare):
            places = OriginalPositions(text, steps, projection)
            assert places.view == projection(layer)
            spans = [places.span(at, at + 1) for at in range(len(places.view))]
            assert spans == sorted(spans)
            assert all(0 <= start < end <= len(text) for start, end in spans)


@walk(
    ("decoder", "text", "becomes"),
    [
        (ESCAPES, "a\\n\\x41\\u0042\\u{43}\\U00000044\\101\\e\\_\\\\", "a\nABCDA\x1b_\\"),
        (ESCAPES, "\\ud83d\\ude00", "😀"),
        (ESCAPES, "%41%c3%a9%E2%82%AC", "Aé€"),
        (ESCAPES, "&#65;&#x42;&amp;&quot;&eacute;", 'AB&"é'),
        (TERMINAL, "a\x1b[1;31mb\x9b0mc\x1b]8;;https://x\x07d\x1b(Be^[[2mf", "abcdef"),
        (COLOURS, "a[31mb[1;2mc[x]", "abc[x]"),
        (TAGS, 'a<b>b</b><br/>c<a href="x">d</a><!-- e -->f < g > h', "abcdf < g > h"),
    ],
)
def test_a_decoder_takes_away_what_it_names(decoder: Decoder, text: str, becomes: str) -> None:
    assert decoder.decode(text) == becomes
    assert "".join(piece for _, _, piece in decoder.pieces(text)) == becomes


@given(st.text(max_size=60))
@example("½ of Ⅷ is ﬁne… or not...")
@example("\\u0041%41&#65;\u200b")
def test_a_text_without_a_secret_is_the_same(text: str) -> None:
    assert DOOR.text(text) is text or any(compact(secret) in compact(text) for secret in SECRETS)


@given(st.sampled_from(SECRETS), st.sampled_from(sorted(ENCODINGS)), AROUND)
def test_what_has_passed_passes_again_unchanged(secret: str, encoding: str, around: str) -> None:
    clean = DOOR.text(around + ENCODINGS[encoding](secret) + around)
    assert DOOR.text(clean) == clean


@walk(
    "text",
    [
        "the production database",
        "Bearer of good news… and more",
        "planted trees",
        "planted %0A***\n*** planted",
        "hunter 2 pw",
        "12345678",
        "sk-7Lq2z",
        "AB-7Lq2zV-m8",
    ],
)
def test_innocent_texts_are_left_alone(text: str) -> None:
    assert DOOR.text(text) is text


@pytest.mark.full
@pytest.mark.parametrize(
    "hostile",
    [
        "a",
        "…",
        "sk-7Lq2z",
        "7Lq2 zV…",
        "sk7Lq2zVm",
        RANDOM[0],
        "<a ",
        "\x1b[",
        "\\",
        "%25",
        "&#",
        "&amp;",
        "\u200b",
        "&aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "....\"'`(",
    ],
    ids=lambda text: ascii(text[:9]),
)
def test_a_hostile_text_takes_no_longer_than_it_takes_to_read(hostile: str) -> None:
    """What takes a time that grows with the square of the length takes 16 times as long for four times the text."""
    door = Redactor([*SECRETS, "a" * 100, "…" * 20])
    text = hostile * (160_000 // len(hostile.encode()))

    def cost(shown: str) -> float:
        begun = time.process_time()
        door.text(shown)
        return time.process_time() - begun

    usual = cost("a word " * 25_000)
    quarter = min(cost(text[: len(text) // 4]) for _ in range(2))
    assert cost(text) < 9 * quarter + 3 * usual


@walk("number", [12_345_678, -12_345_678, 12345678.0, 1234.5678, 0.12345678])
def test_a_number_may_be_a_secret_of_digits(number: float) -> None:
    door = Redactor(["12345678"])
    assert door.value({"pin": number, "others": [7, number]}) == {"pin": MASK, "others": [7, MASK]}
    assert door.value({"pin": 123456789012, "other": "x"}) == {"pin": MASK, "other": "x"}
    assert door.value({"count": 12_345_679}) == {"count": 12_345_679}


@walk("cut", [str, lambda text: excerpt(text, 40), lambda text: one_line(text, 40)])
def test_a_case_id_holds_no_secret_however_its_name_is_written(cut: Callable[[str], str]) -> None:
    assert DOOR.case_id("about-hunter2-pw", "0123456789abcdef") == "case-0123456789ab"
    assert DOOR.case_id("about-hun-te-r2-pw", "0123456789abcdef") == "case-0123456789ab"
    long = "x" * 62 + "-sk-7lq2zv-mz"
    assert DOOR.case_id(long, "0123456789abcdef") == "case-0123456789ab"
    assert DOOR.case_id(f"{long}-01234567", "0123456789abcdef") == "case-0123456789ab"
    assert DOOR.case_id("sk-7lq2-trees", "0123456789abcdef") == "sk-7lq2-trees"


def test_secrets_as_keys_stay_as_many_keys() -> None:
    door = Redactor([*RANDOM[:2], "hunter2-pw"])
    said = {RANDOM[0]: 1, "other": 2, RANDOM[1]: 3, "hunter2-pw": {"hunter2-pw": 4}, "*** (2)": 5}
    assert door.value(said) == {MASK: 1, "other": 2, "*** (3)": 3, "*** (4)": {MASK: 4}, "*** (2)": 5}


KEYS_ALONE = Redactor(())
ROOT = Path(__file__).parents[2]


@walk(
    ("form", "write"),
    product(
        KEYS,
        (str, lambda text: f"({text}), and", lambda text: json.dumps({"said": text}), lambda text: repr(f"\t{text}\n")),
    ),
)
def test_what_looks_like_a_key_is_masked_without_a_declaration(form: str, write: Callable[[str], str]) -> None:
    text, key = KEYS[form]
    shown = KEYS_ALONE.text(write(text))
    assert MASK in shown
    assert key[-8:] not in shown
    assert KEYS_ALONE.text(shown) == shown
    # Recordings and digests hold what was declared alone.
    assert KEYS_ALONE.declared.text(write(text)) == write(text)


@walk(
    ("text", "becomes"),
    [
        ("Authorization: Bearer abcdef12", "Authorization: Bearer ***"),
        ("api_key: hunter2x", "api_key: ***"),
        ('{"password": "correct horse"}', '{"password": "***"}'),
        ("agent --password=swordfish --verbose", "agent --password=*** --verbose"),
        ("agent --password=PW", "agent --password=***"),
        ("X-API-Key: 12ab34cd.", "X-API-Key: ***."),
        ("AccountKey=abc123+/x==;EndpointSuffix=core", "AccountKey=***;EndpointSuffix=core"),
        ("https://host.example/x?sig=a1b2C3%2Bd4&se=2", "https://host.example/x?sig=***&se=2"),
        ("http:/shop:hunter2@host.example", "http:/***@host.example"),
        ("Basic dXNlcjpodW50ZXIy", "Basic ***"),
    ],
)
def test_only_the_value_of_a_name_is_masked(text: str, becomes: str) -> None:
    assert KEYS_ALONE.text(text) == becomes


def test_the_field_of_a_key_masks_its_value() -> None:
    said = {"api_key": "hunter2x", "key": "case-1", "max_tokens": "100", "token": "the"}
    assert KEYS_ALONE.value(said) == {**said, "api_key": MASK}


@walk(
    "text",
    [
        "api_key: ${OPENAI_API_KEY:-unset}",
        "password: <your password>, or --token TOKEN",
        "Password: required. The token: a unit of text",
        "api_key: unknown key; remove it",
        "key=lambda item: item.name, secret=os.environ['X'], token=token",
        "postgres://postgres:postgres@localhost, postgres://shop:password@localhost",
        "commit 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567, key: 3f2a7c9d1e5b8a60",
        "sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
        "550e8400-e29b-41d4-a716-446655440000",
        "call_7Lq2zV8mZ8dxK4711RtQw9Bn3Ty6Hs5 and chatcmpl-9aBcDeFgHiJkLmNoPqRsTuVwXyZ12",
        "TestThatHttp2ConnectionsAreClosedProperlyAfterTimeout30Seconds",
        "sk-learn-pipeline-with-many-steps",
        "U29tZSB0ZXh0IHRoYXQgaXMgbm8ga2V5IGF0IGFsbCwgYnV0IGJhc2U2NA==",
        "src/holodeck/Http2Client/ReadTimeout30/Generated4Name/Api.py",
    ],
)
def test_what_names_no_key_is_left_alone(text: str) -> None:
    assert KEYS_ALONE.text(text) is text


@pytest.mark.full
def test_no_text_of_this_repository_looks_like_a_key() -> None:
    """Documents, examples, recordings, schemas and locked digests; 5 MB without one false alarm."""
    size = 0
    kinds = {".md", ".yaml", ".yml", ".json", ".jsonl", ".csv", ".j2", ".lock", ".toml", ".py", ".svg"}
    for folder in ("docs", "examples", "templates", "schemas", "uv.lock", "README.md", "CHANGELOG.md"):
        found = ROOT / folder
        for path in sorted(found.rglob("*")) if found.is_dir() else [found]:
            if path.suffix in kinds:
                text = path.read_text(encoding="utf-8")
                size += len(text)
                assert KEYS_ALONE.text(text) is text or path.name == "security.md", path
    assert size > 4_000_000


UNITS = (
    *("a", "A1b", "0", "f3", "'", '"', " ", "\n", "-", "a ", "a:", "=", "\\", "_", "...", "(", "://", "--a ", "&#0"),
    *("key=", "key=(", "password=(", "password: ", "password:'", 'password="a\\', "--password ", "://a:b@", "://a:b"),
    *("eyJaaaaaaaa.", "Bearer ", "sk-", "sk-a1B2", "-----BEGIN PRIVATE KEY-----", "SG.aaaaaaaaaaaaaaaaaaaa."),
    *("-----BEGIN PRIVATE KEY-----\naaaaaaaaaaaaaaaaaaaa\n", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7\n", "\\00006"),
)
"""What a text is repeated of that costs most."""


@pytest.mark.full
@walk("unit", UNITS)
def test_the_search_for_known_forms_is_linear(unit: str) -> None:
    """What takes a time that grows with the square of the length takes 16 times as long for four times the text."""

    def cost(size: int) -> float:
        text = (unit * (size // len(unit) + 1))[:size]
        begun = time.process_time()
        for _ in find_keys(text):
            pass
        return time.process_time() - begun

    quarter = min(cost(16_000) for _ in range(2))
    assert min(cost(64_000) for _ in range(2)) < 9 * quarter + 0.02
