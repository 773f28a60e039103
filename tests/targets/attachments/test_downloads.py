"""Downloads over real HTTP: what is followed, tried again, refused and kept."""

from __future__ import annotations

import asyncio
import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from holodeck_action.targets.own_model.downloads import (
    MOST_BYTES,
    DownloadError,
    Downloads,
    Fetcher,
    Resolve,
    resolve_host,
)
from tests.tables import walk
from tests.targets.attachments.site import Answer, Handler, Site, in_turn, moved, page

BUSY = page(b"", 503)
pauses: list[float] = []


async def _pause(seconds: float) -> None:
    pauses.append(seconds)


def downloaded(
    *urls: str,
    cache: Path | None = None,
    cached: bool = True,
    public_only: bool = False,
    online: bool = True,
    timeout_s: float = 60.0,
    names: Resolve = resolve_host,
) -> list[bytes | str]:
    """What one run downloads, one after the other: contents, or what is said instead."""
    pauses.clear()

    async def run() -> list[bytes | str]:
        fetcher = Fetcher(public_only=public_only, resolve=names)
        downloads = Downloads(fetcher, timeout_s=timeout_s, cache=cache, online=online, pause=_pause)
        found: list[bytes | str] = []
        try:
            for url in urls:
                try:
                    found.append((await downloads.path(url, cached=cached)).read_bytes())
                except DownloadError as error:
                    found.append(error.message)
        finally:
            await downloads.close()
        return found

    return asyncio.run(run())


# -- getting it


def test_a_file_is_downloaded_once_in_a_run(site: Site) -> None:
    site.pages["/a"] = in_turn(page(b"one"), page(b"two"))
    assert downloaded(f"{site.url}/a", f"{site.url}/a#part", f"{site.url}/a") == [b"one", b"two", b"one"]
    assert site.asked == [("/a", f"127.0.0.1:{site.port}")] * 2


def test_redirects_are_followed_five_times(site: Site) -> None:
    for number in range(6):
        site.pages[f"/{number}"] = moved(f"/{number + 1}?q=1")
    site.pages["/6"] = page(b"there")
    assert downloaded(f"{site.url}/1") == [b"there"]
    assert site.paths == ["/1", *(f"/{number}?q=1" for number in range(2, 7))]
    assert downloaded(f"{site.url}/0") == ["the server redirects more than 5 times"]


@pytest.mark.parametrize(
    ("to", "said"),
    [
        ("", "the server answered 302 without a destination"),
        ("file:///etc/passwd", "only http and https URLs are downloaded"),
        ("http://[::1", "the server redirects to an invalid URL: Invalid IPv6 URL"),
        (
            "http://169.254.1.1/latest/meta-data",
            "nothing is downloaded from 169.254.1.1: 169.254.1.1 is a link-local, multicast or unspecified address",
        ),
    ],
)
def test_where_redirects_do_not_lead(site: Site, to: str, said: str) -> None:
    site.pages["/a"] = moved(to)
    assert downloaded(f"{site.url}/a") == [said]


@walk(
    ("url", "said"),
    [
        ("ftp://example.org/a", "only http and https URLs are downloaded"),
        ("file:///etc/passwd", "only http and https URLs are downloaded"),
        ("//example.org/a", "only http and https URLs are downloaded"),
        ("https://", "only http and https URLs are downloaded"),
        (
            "https://user:pass@example.org/a",
            "a URL with a user name or a password is not downloaded; download the file in an earlier step",
        ),
        ("http://example.org:99999/", "it is not a URL: Port out of range 0-65535"),
    ],
)
def test_what_is_no_url_to_download(url: str, said: str) -> None:
    assert downloaded(url) == [said]


# -- trouble


def test_a_server_that_is_busy_is_asked_again(site: Site) -> None:
    site.pages["/a"] = in_turn(BUSY, page(b"", 429), page(b"there"))
    assert downloaded(f"{site.url}/a") == [b"there"]
    assert (len(site.asked), pauses) == (3, [1.0, 2.0])


def test_after_three_attempts_it_is_given_up_and_tried_anew_by_whoever_needs_it_next(site: Site) -> None:
    site.pages["/a"] = in_turn(BUSY, BUSY, BUSY, page(b"there"))
    assert downloaded(f"{site.url}/a", f"{site.url}/a") == [
        "the server answered with status 503 (3 attempts)",
        b"there",
    ]
    assert len(site.asked) == 4


@pytest.mark.parametrize("status", [201, 204, 206, 400, 401, 403, 404, 410])
def test_other_answers_are_final(site: Site, status: int) -> None:
    site.pages["/a"] = page(b"", status)
    assert downloaded(f"{site.url}/a") == [f"the server answered with status {status}"]
    assert len(site.asked) == 1


def test_a_body_that_breaks_off_is_no_file(site: Site) -> None:
    site.pages["/a"] = in_turn(_closing(page(b"half", content_length="8")), page(b"complete"))
    assert downloaded(f"{site.url}/a") == [b"complete"]
    assert len(site.asked) == 2


def _closing(answer: Answer) -> Answer:
    def close(handler: Handler) -> None:
        answer(handler)
        handler.close_connection = True

    return close


def test_nobody_there(site: Site) -> None:
    port = site.port
    site.close()
    (said,) = downloaded(f"http://127.0.0.1:{port}/a")
    assert isinstance(said, str)
    assert said.startswith("127.0.0.1 cannot be reached: ")
    assert said.endswith("(3 attempts)")


def test_a_name_that_is_none() -> None:
    (said,) = downloaded("http://nowhere.invalid/a")
    assert isinstance(said, str)
    assert said.startswith("nowhere.invalid cannot be resolved: ")


def test_what_is_too_large_is_refused_by_its_length_and_without_one(site: Site) -> None:
    site.pages["/told"] = page(b"", content_length=str(MOST_BYTES + 1))

    def unreported(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("connection", "close")
        handler.end_headers()
        for _ in range(MOST_BYTES // 1_000_000 + 2):
            handler.wfile.write(bytes(1_000_000))

    site.pages["/unreported"] = unreported
    said = "it is larger than 25 MB; download the needed part in an earlier step"
    assert downloaded(f"{site.url}/told", f"{site.url}/unreported") == [said, said]
    assert len(site.asked) == 2


def test_a_server_that_is_slow_is_left(site: Site) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("content-length", "1000")
        handler.end_headers()
        while not site.released.wait(0.02):
            handler.wfile.write(b".")

    site.pages["/a"] = drip
    assert downloaded(f"{site.url}/a", timeout_s=0.2) == [
        "it was not downloaded within 0.2 s; raise execution.download_timeout"
    ]


# -- private networks


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("127.0.0.1", "127.0.0.1"),
        ("localhost", None),
        ("LOCALHOST.", None),
        ("127.1", "127.0.0.1"),
        ("2130706433", "127.0.0.1"),
        ("0x7f.1", "127.0.0.1"),
        ("[::1]", "::1"),
        ("[::ffff:127.0.0.1]", "::ffff:127.0.0.1"),
        ("10.1.2.3", "10.1.2.3"),
    ],
)
def test_private_networks_are_not_asked_where_only_public_ones_may_be(
    site: Site, host: str, address: str | None
) -> None:
    site.pages["/a"] = page(b"secret")
    (said,) = downloaded(f"http://{host}:{site.port}/a", public_only=True)
    assert isinstance(said, str)
    assert said.startswith("nothing is downloaded from ")
    assert said.endswith(
        f"{address or ''} is not a public address; in CI, files are downloaded from public addresses only"
    )
    assert site.asked == []


def test_one_private_address_among_public_ones_is_refused(site: Site) -> None:
    async def both(host: str, port: int) -> Sequence[str]:
        return ("93.184.216.34", "127.0.0.1")

    (said,) = downloaded(f"http://both.example:{site.port}/a", public_only=True, names=both)
    assert said == (
        "nothing is downloaded from both.example: 127.0.0.1 is not a public address; in CI, files are downloaded from "
        "public addresses only"
    )


def test_the_address_that_was_checked_is_the_one_that_is_asked(site: Site) -> None:
    looked_up: list[str] = []

    async def rebound(host: str, port: int) -> Sequence[str]:
        looked_up.append(host)
        # The second look would find what must not be asked.
        return ("127.0.0.1",) if len(looked_up) == 1 else ("169.254.169.254",)

    site.pages["/a"] = page(b"there")
    assert downloaded(f"http://files.example:{site.port}/a", names=rebound) == [b"there"]
    assert looked_up == ["files.example"]
    assert site.asked == [("/a", f"files.example:{site.port}")]


def test_every_redirect_is_checked(site: Site) -> None:
    async def names(host: str, port: int) -> Sequence[str]:
        return {"open.example": ("127.0.0.1",), "inner.example": ("169.254.1.1",)}[host]

    site.pages["/a"] = moved(f"http://inner.example:{site.port}/b")
    (said,) = downloaded(f"http://open.example:{site.port}/a", names=names)
    assert said == (
        "nothing is downloaded from inner.example: 169.254.1.1 is a link-local, multicast or unspecified address"
    )
    assert site.paths == ["/a"]


def test_the_next_address_is_tried_when_one_does_not_answer(site: Site) -> None:
    async def two(host: str, port: int) -> Sequence[str]:
        return ("127.0.0.2", "127.0.0.1")

    site.pages["/a"] = page(b"there")
    assert downloaded(f"http://two.example:{site.port}/a", names=two) == [b"there"]
    assert pauses == []


def test_no_proxy_is_asked(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    site.pages["/a"] = page(b"there")
    assert downloaded(f"{site.url}/a") == [b"there"]


# -- what is kept


def test_a_file_is_kept_between_runs_under_the_digest_of_its_url(site: Site, tmp_path: Path) -> None:
    cache = tmp_path / "deep" / "cache"
    url = f"{site.url}/a"
    site.pages["/a"] = in_turn(page(b"one"), page(b"two"))
    assert downloaded(url, cache=cache) == [b"one"]
    assert downloaded(url, cache=cache) == [b"one"]
    assert os.listdir(cache) == [hashlib.sha256(url.encode()).hexdigest()]
    # Neither used nor kept.
    assert downloaded(url, cache=cache, cached=False) == [b"two"]
    assert downloaded(url) == [b"two"]
    assert downloaded(url, cache=cache) == [b"one"]
    assert len(site.asked) == 3


def test_what_failed_is_not_kept(site: Site, tmp_path: Path) -> None:
    site.pages["/a"] = page(b"half", 404)
    downloaded(f"{site.url}/a", f"{site.url}/b", cache=tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_nothing_is_left_of_what_is_not_kept(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    site.pages["/a"] = page(b"one")
    assert downloaded(f"{site.url}/a") == [b"one"]
    assert os.listdir(tmp_path) == []


def test_a_replay_downloads_nothing(site: Site, tmp_path: Path) -> None:
    url = f"{site.url}/a"
    site.pages["/a"] = page(b"one")
    assert downloaded(url, cache=tmp_path, online=False) == [
        "a replay downloads nothing, and the folder of execution.cache_dir has no copy of it; "
        "keep that folder of the recorded run"
    ]
    assert downloaded(url, online=False) == [
        "a replay downloads nothing, and it is not kept between runs; "
        "record with execution.cache_enabled and without `cache: false`"
    ]
    assert site.asked == []
    downloaded(url, cache=tmp_path)
    assert downloaded(url, cache=tmp_path, online=False) == [b"one"]
    assert len(site.asked) == 1


def test_a_folder_that_cannot_be_written(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    site.pages["/a"] = page(b"one")
    assert downloaded(f"{site.url}/a", cache=tmp_path / "file" / "cache") == [
        "it cannot be cached: Not a directory; set execution.cache_dir to a writable folder"
    ]
