"""Which addresses only this machine can reach, and the address of a client behind proxies."""

from collections.abc import Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TypeAlias

Network: TypeAlias = IPv4Network | IPv6Network


def is_loopback(host: str) -> bool:
    """Whether the host is `localhost`, a name below it, or a loopback address."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    address = _parse_address(host)
    return address is not None and address.is_loopback


class TrustedProxies:
    """The proxies whose `X-Forwarded-For` is believed."""

    def __init__(self, networks: Iterable[str]) -> None:
        """`networks` are addresses and networks: `10.0.0.7`, `10.1.0.0/16`, `fd00::/8`. Raises ValueError."""
        self._networks: tuple[Network, ...] = tuple(ip_network(network, strict=False) for network in networks)

    def find_client(self, peer: str, headers: Sequence[tuple[bytes, bytes]]) -> str:
        """Return the address of the client. It is the peer's, unless the peer is a trusted proxy: then it is the last
        address in `X-Forwarded-For` that is not one. Each proxy adds the address of its own peer at the end, and what
        comes before the first untrusted one may be invented."""
        if not self._networks or not self._trusts(peer):
            return peer
        client = peer
        lines = [value.decode("latin-1") for name, value in headers if name == b"x-forwarded-for"]
        for hop in reversed(",".join(lines).split(",")):
            address = _parse_address(_without_port(hop.strip()))
            if address is None:
                break
            client = str(address)
            if not self._trusts(client):
                break
        return client

    def _trusts(self, host: str) -> bool:
        address = _parse_address(host)
        if address is None:
            return False
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return any(address.version == network.version and address in network for network in self._networks)


NO_PROXIES = TrustedProxies(())


def _parse_address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def _without_port(hop: str) -> str:
    """Remove the port that some proxies add: `10.0.0.7:4711`, `[fd00::1]:4711`."""
    if hop.startswith("["):
        return hop[1:].partition("]")[0]
    return hop.partition(":")[0] if hop.count(":") == 1 else hop
