"""Which hosts are loopback addresses, and whose `X-Forwarded-For` is believed."""

import pytest
from app.access.addresses import NO_PROXIES, TrustedProxies, is_loopback

PROXIES = TrustedProxies(["10.0.0.1", "192.168.0.0/16", "fd00::/8"])


def client(peer: str, *lines: str, proxies: TrustedProxies = PROXIES) -> str:
    return proxies.find_client(peer, [(b"host", b"x"), *((b"x-forwarded-for", line.encode()) for line in lines)])


def test_loopback_hosts() -> None:
    for host in ("localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"):
        assert is_loopback(host), host
    for host in ("", "0.0.0.0", "::", "10.0.0.1", "example.com", "localhost.example.com", "128.0.0.1"):
        assert not is_loopback(host), host


def test_a_peer_that_is_no_trusted_proxy_is_the_client_whatever_it_says() -> None:
    assert client("203.0.113.9", "1.2.3.4") == "203.0.113.9"
    assert client("10.0.0.1", "1.2.3.4", proxies=NO_PROXIES) == "10.0.0.1"
    assert client("not-an-address", "1.2.3.4") == "not-an-address"


def test_the_last_address_that_is_no_trusted_proxy_is_the_client() -> None:
    for peer, lines, expected in [
        ("10.0.0.1", ["1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["9.9.9.9, 1.2.3.4"], "1.2.3.4"),
        ("10.0.0.1", ["9.9.9.9", "1.2.3.4, 192.168.7.7"], "1.2.3.4"),
        ("fd00::5", ["2001:db8::1"], "2001:db8::1"),
        ("::ffff:10.0.0.1", ["1.2.3.4:5555"], "1.2.3.4"),
        ("10.0.0.1", ["[2001:db8::1]:443"], "2001:db8::1"),
        ("10.0.0.1", [], "10.0.0.1"),
        ("10.0.0.1", ["1.2.3.4, unknown"], "10.0.0.1"),
        ("10.0.0.1", ["192.168.1.1"], "192.168.1.1"),
    ]:
        assert client(peer, *lines) == expected, (peer, lines)


def test_a_proxy_must_be_an_address_or_a_network() -> None:
    for text in ("proxy.example.com", "10.0.0.0/99", ""):
        with pytest.raises(ValueError):
            TrustedProxies([text])
