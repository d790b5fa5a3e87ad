"""Decide which URLs and addresses may be fetched.

A URL that is not plain http(s) is refused before any look-up. Addresses must be public, and *all* addresses of a name
must be. An allow list opens hosts and networks. A host on it may have a private address, but not a link-local one or
another where clouds serve credentials: those need a network on the list.
"""

import ipaddress
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache
from typing import TypeAlias

import httpx
from msgspec import Struct

from app.errors import MediaRefused

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolver: TypeAlias = Callable[[str, int], Awaitable[Sequence[str]]]
"""(host, port) → addresses. Raises OSError if there is none."""

_MAX_URL = 8192
_PLAIN_URL = re.compile(
    r"(https?://(?:\[[0-9a-f:.]+\]|[^\s/?#\\@%:\[\]\x00-\x20\x7f]+)(?::[0-9]{0,5})?)"
    r"(?:[/?#][^\\\s\x00-\x20\x7f]*)?",
    re.IGNORECASE,
)
"""Its group is the URL without path and query. No two parsers read it differently."""
_HOST = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)(\.(?!-)[a-z0-9_-]{1,63}(?<!-))*")
_NUMERIC_END = re.compile(r"(\d+|0x[0-9a-f]*)\.?")
_WEB_PORTS = frozenset({80, 443})
_FIRST_FREE_PORT = 1024
_LAST_PORT = 65535

_PUBLIC_6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_NEVER_PUBLIC: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "168.63.129.16/32",  # Azure's host, on every virtual machine
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/3",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
    )
)
_METADATA: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in ("169.254.0.0/16", "fe80::/10", "fd00:ec2::/32", "100.100.100.200/32", "168.63.129.16/32")
)


class FetchTarget(Struct, frozen=True):
    """A parsed URL with its normalized host and its port, before the host is looked up."""

    url: httpx.URL
    host: str
    port: int


def parse_target(url: str, allowed: "AllowList") -> FetchTarget:
    """Parse a URL. Raises MediaRefused if it is not a plain http or https URL, or its port is not allowed."""
    host, port = _parse_origin(url, allowed)
    try:
        return FetchTarget(httpx.URL(url).copy_with(fragment=None), host, port)
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise MediaRefused("the URL is not valid") from None


def _parse_origin(url: str, allowed: "AllowList") -> tuple[str, int]:
    """Return the host and port of a URL. Raises MediaRefused as `parse_target` does."""
    if len(url) > _MAX_URL:
        raise MediaRefused(f"the URL has {len(url)} characters; at most {_MAX_URL} are allowed")
    plain = _PLAIN_URL.fullmatch(url)
    if plain is None:
        raise MediaRefused("must be a plain http or https URL without credentials")
    try:
        host, port = _split_origin(plain.group(1))
    except (httpx.InvalidURL, ValueError, UnicodeError):
        raise MediaRefused("the URL is not valid") from None
    web = port in _WEB_PORTS or _FIRST_FREE_PORT <= port <= _LAST_PORT
    if not web and not allowed.allows_host(host):
        raise MediaRefused(f"port {port} is not allowed; use 80, 443, or {_FIRST_FREE_PORT} and above")
    return host, port


@lru_cache(maxsize=1024)
def _split_origin(origin: str) -> tuple[str, int]:
    """Return the normalized host and the port. A conversation names the same hosts in each of its requests, and httpx
    takes long to parse a URL. Raises as httpx.URL and `_host` do."""
    parsed = httpx.URL(origin)
    port = (443 if parsed.scheme == "https" else 80) if parsed.port is None else parsed.port
    return _host(parsed), port


def _host(url: httpx.URL) -> str:
    """Normalize the host. Raises ValueError for numeric forms of IPv4 other than the dotted one: parsers differ."""
    host = url.raw_host.decode("ascii").lower()
    if ":" in host:
        return str(ipaddress.IPv6Address(host))
    if _NUMERIC_END.fullmatch(host.rstrip(".").rsplit(".", 1)[-1]):
        return str(ipaddress.IPv4Address(host))
    host = host.removesuffix(".")
    if not _HOST.fullmatch(host) or len(host) > 253:
        raise ValueError(host)
    if host == "localhost" or host.endswith(".localhost"):
        return "localhost"
    return host


_PRIVATE_SUFFIXES = (
    *(".internal", ".local", ".localdomain", ".home.arpa", ".intranet", ".lan"),
    *(".corp", ".home", ".private", ".svc"),
)
"""Suffixes of private host names: those of RFC 6762, appendix G, and the one of Kubernetes' services. Google Cloud
serves credentials at metadata.google.internal."""


def check_url_text(url: str, allowed: "AllowList") -> None:
    """Check a URL without any look-up. Raises MediaRefused if its text alone shows that its address is not public."""
    host, _ = _parse_origin(url, allowed)
    if allowed.allows_host(host):
        return
    if ":" in host or host.replace(".", "").isdigit():
        check_addresses(host, [host], allowed)
    elif "." not in host or host.endswith(_PRIVATE_SUFFIXES):  # without a dot, it is a name of the server's own network
        raise MediaRefused("the host is not on a public address")


class AllowList:
    """Hosts (`files.example.org`, `*.example.org`) and networks (`10.1.0.0/16`) that are allowed though not public."""

    def __init__(self, entries: Sequence[str]) -> None:
        self._hosts: set[str] = set()
        self._suffixes: list[str] = []
        self._networks: list[Network] = []
        for entry in entries:
            self._add(entry.strip().lower())

    def _add(self, entry: str) -> None:
        """Raises ValueError for an entry that is neither a host nor a network."""
        if entry.startswith("*."):
            self._suffixes.append(entry[1:])
        elif _HOST.fullmatch(entry) and not _NUMERIC_END.fullmatch(entry.rsplit(".", 1)[-1]):
            self._hosts.add(entry)
        else:
            self._networks.append(ipaddress.ip_network(entry))

    def allows_host(self, host: str) -> bool:
        return host in self._hosts or host.endswith(tuple(self._suffixes))

    def allows_address(self, address: Address) -> bool:
        return any(address in network for network in self._networks)


def check_addresses(host: str, addresses: Sequence[str], allowed: AllowList) -> list[str]:
    """Return a host's addresses, normalized. Raises MediaRefused unless every one of them is allowed."""
    if not addresses:
        raise MediaRefused("the host has no address")
    return [str(_check_address(host, text, allowed)) for text in addresses]


def _check_address(host: str, text: str, allowed: AllowList) -> Address:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        raise MediaRefused("the host's address is not valid") from None
    unwrapped = _unwrap_ipv4(address)
    if allowed.allows_address(unwrapped) or is_public(unwrapped):
        return address
    if allowed.allows_host(host) and not any(unwrapped in network for network in _METADATA):
        return address
    raise MediaRefused("the host is not on a public address")


def _unwrap_ipv4(address: Address) -> Address:
    """Return the IPv4 address inside an IPv4-mapped or NAT64 address, else the address itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def is_public(address: Address) -> bool:
    if any(address in network for network in _NEVER_PUBLIC):
        return False
    if isinstance(address, ipaddress.IPv6Address) and (address not in _PUBLIC_6 or address.scope_id):
        return False
    return address.is_global
