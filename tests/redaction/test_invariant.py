"""Of a random secret, no few letters and digits in a row pass, and nothing else is masked."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from holodeck_action.text.plain import one_line
from holodeck_action.text.redaction import MASK, Redactor
from holodeck_action.text.secrets import is_secret_name
from tests.redaction.writers import MIXED, PREFIXES, WIDTHS, WRITERS, left, random_secret, rows_of
from tests.tables import walk

TIMES = int(os.environ.get("REDACTION_FUZZ_TIMES", "1"))
"""By how much more secrets are drawn than in `make test`."""
ROOT = Path(__file__).parents[2]
SENTENCE = "the agent said that it is open until five and asks whether 2 of 7 orders, see A-17, came back late"


def prose(random: Random) -> str:
    return " ".join(random.choices(SENTENCE.split(), k=random.randint(0, 12)))


@pytest.mark.parametrize("alphabet", WIDTHS)
@pytest.mark.parametrize("writer", WRITERS)
def test_no_row_of_a_random_secret_passes(writer: str, alphabet: str) -> None:
    """Whole or cut anywhere, whatever a writer puts between the letters, and again after it has passed."""
    random, width = Random(f"{writer} {alphabet}"), WIDTHS[alphabet]
    for _ in range(40 * TIMES):
        secrets = [random_secret(random, alphabet) for _ in range(3)]
        door = Redactor(secrets)
        for secret in secrets:
            start = random.choice((0, random.randrange(len(secret) - width)))
            end = random.choice((len(secret), random.randint(start + width, len(secret))))
            written = WRITERS[writer](random, secret[start:end])
            if random.random() < 0.3:
                written = json.dumps({"said": written})
            text = f"{prose(random)} {written} {prose(random)}"
            shown = door.text(text)
            rows = rows_of(secret, width)
            assert left(shown, rows) == [], (secret, text, shown)
            assert left(one_line(shown, 2000), rows) == []
            assert door.text(shown) == shown


@pytest.mark.parametrize("alphabet", WIDTHS)
def test_no_piece_passes_in_base64_or_hexadecimal(alphabet: str) -> None:
    """Of eight characters in a row of the secret, encoded with whatever stands beside them."""
    random, width = Random(alphabet), WIDTHS[alphabet]
    for _ in range(60 * TIMES):
        secret = random_secret(random, alphabet)
        door = Redactor([secret])
        first = max(len(prefix) for prefix in PREFIXES if secret.startswith(prefix))
        start = random.randrange(first, len(secret) - width)
        piece = secret[start : start + random.randint(width, 30)]
        around = random.randbytes(random.randint(0, 9)), random.randbytes(random.randint(0, 9))
        data = around[0] + piece.encode() + around[1]
        for encoded in (base64.b64encode(data).decode(), base64.urlsafe_b64encode(data).decode(), data.hex()):
            if sum(map(str.isalnum, piece)) >= width:
                assert MASK in door.text(f"it is {encoded}."), (secret, piece, encoded)


@walk(
    "shown",
    [
        "ghp\\_16C7e42F292c6912E7710c838347Ae178B4a",
        "ghp\u201116C7e42F292c6912E7710c838347Ae178B4a",
        "ghp_16C7e42F\x1b[1m292c6912E7710c838347\x1b[0mAe178B4a",
        "ghp_16C7e42F**292c6912E7710c838347**Ae178B4a",
        '"ghp_16C7e42F292c69" + "12E7710c838347Ae178B4a"',
        "ghp_16C7e42F292c69[...]",
        "ghp_16C7e42F292c69(...)",
        "ghp_16C7e42F292c69, ...",
        "ghp_16C7e42F292c69⋯",
        "ghp_16C7e42F292c69 [truncated]",
        "ghp_16C7e42F292c69",
        "E7710c838347Ae178B4a",
        "its middle is 292c6912E7",
    ],
)
def test_what_was_leaked_once_is_masked(shown: str) -> None:
    secret = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
    masked = Redactor([secret]).text(f"the key is {shown}!")
    assert MASK in masked
    assert left(masked, rows_of(secret, 8)) == []


def corpus() -> Iterator[tuple[str, str]]:
    """Some 10 MB of what is no secret."""
    random = Random(7)
    docs = [path.read_text() for path in sorted((ROOT / "docs").glob("*.md"))]
    # A word after `api_key:`, `Authorization:` or `token` may be a credential.
    words = [word for word in " ".join(docs).split() if not word.endswith((":", "=")) and not is_secret_name(word)]
    yield "documentation", "\n".join(docs)
    yield "answers", "\n".join(" ".join(random.choices(words, k=60)) for _ in range(4000))
    yield "code", "\n".join(path.read_text() for path in sorted((ROOT / "holodeck_action").rglob("*.py"))[:300])
    yield "hashes", "\n".join(hashlib.sha256(str(number).encode()).hexdigest() for number in range(24_000))
    yield "UUIDs", "\n".join(str(uuid.UUID(int=random.getrandbits(128))) for _ in range(24_000))
    yield "base64", base64.encodebytes(random.randbytes(1_000_000)).decode()
    yield "base64 of text", base64.encodebytes("\n".join(docs).encode()).decode()
    yield "digits", " ".join(str(random.getrandbits(64)) for _ in range(50_000))


def structured(random: Random) -> Iterator[str]:
    """Secrets of which only some values are secret."""

    def key(size: int) -> str:
        return "".join(random.choices(MIXED, k=size))

    for _ in range(2):
        yield f"postgresql://shop:{key(20)}@db.example.com:5432/orders?sslmode=require"
        yield f"Server=tcp:shop.database.windows.net,1433;User ID=shop;Password={key(24)};Encrypt=True;Timeout=30;"
        yield f"DefaultEndpointsProtocol=https;AccountName=shop;AccountKey={key(86)}==;EndpointSuffix=core.windows.net"
        yield f"https://hooks.slack.com/services/T{key(8)}/B{key(8)}/{key(24)}"
        yield json.dumps(
            {"type": "service_account", "token_uri": "https://oauth2.googleapis.com/token", "key": key(40)}
        )
        body = base64.encodebytes(b"\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01\x00" + random.randbytes(300)).decode()
        yield f"-----BEGIN RSA PRIVATE KEY-----\n{body}-----END RSA PRIVATE KEY-----\n"
        yield f"Authorization: Bearer {key(40)}"
        yield f"API_URL=https://api.example.com/v1\nAPI_KEY={key(32)}\nDEBUG=true\nREGION=eu-west-1\n"
        head, claims = (base64.urlsafe_b64encode(json.dumps(each).encode()).decode().rstrip("=") for each in HEADS)
        yield f"{head}.{claims}.{key(43)}"
        yield f"session={key(32)}; Path=/; HttpOnly; SameSite=Lax"


HEADS = ({"alg": "HS256", "typ": "JWT"}, {"sub": "1234567890", "name": "John Doe", "iat": 1516239022})


@pytest.mark.full
def test_nothing_but_secrets_is_masked() -> None:
    """Of 50 secrets of each alphabet and 20 with a structure, in 10 MB."""
    random = Random(2)
    secrets = [random_secret(random, alphabet) for alphabet in WIDTHS for _ in range(50)]
    door = Redactor([*secrets, *structured(random)])
    size = 0
    for name, text in corpus():
        size += len(text)
        assert door.text(text) is text, name
    assert size > 9_000_000


def test_of_a_structured_secret_only_the_values_are_secret() -> None:
    random = Random(3)
    for secret in structured(random):
        shown = Redactor([secret]).text(f"it is {secret}.")
        assert MASK in shown
        for word in (
            "postgresql://",
            "db.example.com",
            "windows.net",
            "hooks.slack.com",
            "service_account",
            "BEGIN RSA",
        ):
            assert (word in shown) == (word in secret), shown
        for word in ("Password", "AccountKey", "AccountName", "Bearer", "API_KEY", "session", "HttpOnly", "Timeout=30"):
            assert (word in shown) == (word in secret), shown


@walk(
    ("secret", "piece", "passes"),
    [
        ("qWxRtZpLmKvBnHsJ", "the key begins with qWxRtZpL", False),
        ("sk-ant-api03-7Lq2zV8mZ8dxK4711Rt", "their keys begin with sk-ant-api03-7Lq", True),
        ("sk-ant-api03-7Lq2zV8mZ8dxK4711Rt", "their keys begin with sk-ant-api03-7Lq2", False),
        ("correct-horse-battery-42", "it is correct, horse and all", True),
        ("correct-horse-battery-42", "CORRECT-horse-battery-\x1b[1m42", False),
        ("a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e it is", True),
        ("a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e5 it is", False),
        ("314159265358979", "31415926535, give or take", True),
        ("314159265358979", "314159265358, give or take", False),
    ],
)
def test_what_makes_a_secret_known(secret: str, piece: str, passes: bool) -> None:
    assert (Redactor([secret]).text(piece) is piece) == passes


def test_a_piece_is_masked_with_the_known_prefix_before_it() -> None:
    """The prefix identifies nobody, and yet nothing of it is left beside what does."""
    secret = "sk-ant-api03-7Lq2zV8mZ8dxK4711Rt"
    assert Redactor([secret]).text(f"it begins with {secret[:20]}.") == f"it begins with {MASK}."


TOKEN = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
SEVENS = [TOKEN[at : at + 7] for at in range(0, len(TOKEN), 7)]
EXCEPTIONS = {
    "a logger's prefix on every line": "\n".join(f"INFO 12:00:0{at} {piece}" for at, piece in enumerate(SEVENS)),
    "the columns of a hexdump": "\n".join(f"{piece.encode().hex(' ')}  {piece}" for piece in SEVENS),
    "letters of another alphabet that look alike": "\u0430".join(SEVENS),
}


def test_the_page_names_what_is_not_found() -> None:
    page = (ROOT / "docs" / "security.md").read_text()
    listed = page.partition("<!-- exceptions -->")[2].partition("\n* ")[0]
    assert [line.strip(" *,.") for line in listed.splitlines() if line.strip()] == list(EXCEPTIONS)
    for text in EXCEPTIONS.values():
        assert Redactor([TOKEN]).text(text) is text
