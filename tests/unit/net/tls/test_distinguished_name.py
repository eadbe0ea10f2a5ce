"""Subjects as Java's X500Principal.getName() writes them: each text below is what Java 17 said of that certificate."""

from __future__ import annotations

import ssl

import pytest

from support.certificates import Authority
from tailrace.net.tls.distinguished_name import not_after_ms, subject_of

SUBJECTS = {
    "/O=Example/OU=eng/CN=alice": "CN=alice,OU=eng,O=Example",
    '/C=DE/ST=Bavaria/L=München/O=A, "Q" <x>;y=z\\\\w/CN=#first\\+ x': (
        'CN=\\#first\\+ x,O=A\\, \\"Q\\" \\<x\\>\\;y\\=z\\\\w,L=München,ST=Bavaria,C=DE'
    ),
    "/DC=org/DC=example/UID=u1/CN=a+OU=b": "CN=a+OU=b,UID=u1,DC=example,DC=org",
    "/emailAddress=a@b.c/CN=mail/serialNumber=12/GN=g/SN=s/title=t": (
        "2.5.4.12=#0c0174,2.5.4.4=#0c0173,2.5.4.42=#0c0167,2.5.4.5=#13023132,CN=mail,"
        "1.2.840.113549.1.9.1=#16056140622e63"
    ),
    "/CN= two  spaces /street=s 1": "STREET=s 1,CN=\\ two  spaces\\ ",
    "/CN=日本/O=x": "O=x,CN=日本",
}


def der(authority: Authority, subject: str, days: int = 2) -> bytes:
    return ssl.PEM_cert_to_DER_cert(authority.sign("some", subject, days=days).certificate.read_text())


@pytest.mark.parametrize(("subject", "name"), SUBJECTS.items())
def test_a_subject_has_the_name_that_java_gives_it(authority: Authority, subject: str, name: str) -> None:
    assert subject_of(der(authority, subject)) == name


def test_the_end_of_a_certificate_is_known(authority: Authority) -> None:
    """After 2049 the time has four digits for its year."""
    near, far = (not_after_ms(der(authority, "/CN=x", days=days)) for days in (2, 20_000))
    assert far - near == pytest.approx(19_998 * 86_400_000, abs=60_000)


def test_what_is_no_certificate_is_refused(authority: Authority) -> None:
    whole = der(authority, "/CN=x")
    for cut in range(0, len(whole) - 200, 7):
        with pytest.raises(ValueError, match=r"certificate|argument"):
            subject_of(whole[:cut])
