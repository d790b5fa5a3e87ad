"""Data URIs are read as leniently as browsers read them, and no more."""

import base64

import pytest
from app.chat import datauri


@pytest.mark.parametrize(
    ("url", "media_type", "data"),
    [
        ("data:,a%20b", "", b"a b"),
        ("data:text/plain;charset=utf-8,x", "text/plain", b"x"),
        ("DATA:Image/PNG;base64,aGk=", "image/png", b"hi"),
        ("data:;base64,aGk", "", b"hi"),
        ("data:x/y;a=b;base64,aG k%3D\n", "x/y", b"hi"),
        ("data:x/y;base64,-_-_", "x/y", b"\xfb\xff\xbf"),
        ("data:x/y;base64,", "x/y", b""),
    ],
)
def test_a_data_uri_is_read(url: str, media_type: str, data: bytes) -> None:
    assert (datauri.parse(url).media_type, datauri.decode(url)) == (media_type, data)


@pytest.mark.parametrize("url", ["data:", "data:x/y;base64", "http://h/,x", "data:x/y;base64,a", "data:;base64,{}"])
def test_what_is_no_data_uri_is_refused(url: str) -> None:
    with pytest.raises(ValueError):
        datauri.decode(url)


def test_the_beginning_is_read_without_the_rest() -> None:
    url = datauri.encode("x/y", bytes(range(256)) * 4)
    text = url[datauri.parse(url).start :]
    assert bytes(range(40)) == datauri.decode_head(text, 64)[:40]
    assert datauri.decode_head("aG\nk", 64) == b"hi"
    assert datauri.decode_head("aGkhI", 64) == b"hi!"


def test_a_charset_is_a_parameter() -> None:
    assert datauri.parse('data:text/plain;charset="GBK",x').charset == "GBK"


@pytest.mark.parametrize(
    "head", [b"\xff\xd8\xff\xe0", b"\xff\xfb\x90d", b"\xff\xf1P\x80", b"\xff\xe3\x18", b"\xff\xfea\0"]
)
def test_media_whose_base64_begins_like_a_path_are_no_paths(head: bytes) -> None:
    text = base64.b64encode(head + bytes(40)).decode()
    assert text.startswith("/") and datauri.may_be_base64(text)


@pytest.mark.parametrize("text", ["/etc/passwd", " /home/ada/a", "/usr/share/sounds/bell", "a.wav", "../a", "~/a", ""])
def test_a_path_is_no_base64(text: str) -> None:
    assert not datauri.may_be_base64(text)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("data:x/y;base64,aGk=", "data:x/y;base64,aGk="),
        ("DATA:X/Y;BASE64,aGk=", "data:x/y;base64,aGk="),
        ("data:x/z;name=a.png;base64,aGk", "data:x/y;base64,aGk="),
        ("data:x/y;base64,aG\r\nk=\n", "data:x/y;base64,aGk="),
        ("data:x/y;base64,aG%0Ak%3D", "data:x/y;base64,aGk="),
        ("data:x/y;base64,-_-_", "data:x/y;base64,+/+/"),
        ("data:x/y,h%69", "data:x/y;base64,aGk="),
    ],
)
def test_a_data_uri_is_written_as_strict_servers_read_it(url: str, expected: str) -> None:
    assert datauri.normalize(url, "x/y") == expected


@pytest.mark.parametrize("text", ["aGk…", "aGkh[…]", "aGkh...", "aGkh<cut>aGkh", "{}", "aGk\udcffaGk"])
def test_text_that_was_shortened_is_no_base64(text: str) -> None:
    with pytest.raises(ValueError, match="is not base64"):
        datauri.clean_base64(text)


def test_clean_base64_is_not_copied() -> None:
    url = datauri.encode("x/y", bytes(range(256)))
    assert datauri.normalize(url, "x/y") is url
