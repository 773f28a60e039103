"""Downloads over HTTPS: the certificate is that of the name, although the checked address is what is asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.targets.attachments.site import Site, certified, moved, page
from tests.targets.attachments.test_downloads import downloaded


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server with the certificate of files.example, which the job trusts."""
    tls, certificate = certified(tmp_path, "files.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    site = Site(tls)
    yield site
    site.close()


async def _here(host: str, port: int) -> Sequence[str]:
    return ("127.0.0.1",)


def test_the_name_of_the_certificate_is_held_against_the_name_of_the_url(secure: Site) -> None:
    secure.pages["/a"] = page(b"there")
    assert downloaded(f"https://files.example:{secure.port}/a", names=_here) == [b"there"]
    assert secure.asked == [("/a", f"files.example:{secure.port}")]
    (said,) = downloaded(f"https://other.example:{secure.port}/a", names=_here)
    assert isinstance(said, str)
    assert "certificate verify failed: Hostname mismatch" in said
    assert len(secure.asked) == 1


def test_a_redirect_does_not_leave_https(secure: Site) -> None:
    secure.pages["/a"] = moved(f"http://files.example:{secure.port}/b")
    said = downloaded(f"https://files.example:{secure.port}/a", names=_here)
    assert said == ["the server redirects from https to a URL without https"]
