"""Downloads over HTTPS: the certificate is that of the name, although the checked address is what is asked."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.agents.attachments.site import Site, moved, page
from tests.agents.attachments.test_downloads import downloaded


@pytest.fixture
def secure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A server with the certificate of files.example, which the job trusts."""
    certificate, key = _certificate(tmp_path, "files.example")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate, key)
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
    assert said == ["the server redirects from https to an address that is not"]


def _certificate(folder: Path, name: str) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = folder / "certificate.pem", folder / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return files
