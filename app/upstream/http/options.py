"""How connections to one model server are made: through which proxy, with which certificates, for how long."""

import base64
import ssl
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import httpx

IDLE_SECONDS = 4.5
"""Idle connections are closed before uvicorn-based servers close them, which they do after five seconds."""
MAX_AGE_SECONDS = 60.0
"""An older connection takes no further request, so that a host name that has moved is looked up again."""


class Proxy(NamedTuple):
    """An HTTP proxy. Requests to `https` servers go through a tunnel (CONNECT), others name their whole URL."""

    scheme: str
    """Of the connection to the proxy: `http` or `https`."""
    host: str
    port: int
    authorization: bytes | None
    """The value of the header Proxy-Authorization."""


class ConnectionOptions(NamedTuple):
    proxy: Proxy | None = None
    ca_file: str | None = None
    """The certificates of the issuers that are trusted, as PEM; None: those of the machine, or of SSL_CERT_FILE."""
    client_certificate: str | None = None
    """A PEM file; it may contain the key too."""
    client_key: str | None = None
    socket_path: str | None = None
    """The path of a Unix socket, which is used instead of the host and port of the URL."""
    idle_seconds: float = IDLE_SECONDS
    max_age_seconds: float = MAX_AGE_SECONDS


DEFAULT_OPTIONS = ConnectionOptions()


def parse_proxy(text: str) -> Proxy:
    """Parse `http://user:password@host:port`. Raises ValueError without the text, which may hold a password."""
    try:
        url = httpx.URL(text if "://" in text else f"http://{text}")
    except httpx.InvalidURL:
        raise ValueError("must be the URL of an HTTP proxy, such as http://proxy.example.com:3128") from None
    if url.scheme not in ("http", "https"):
        raise ValueError(f"must be an http or https URL, not {url.scheme}: SOCKS proxies are not supported")
    if not url.host or url.raw_path not in (b"/", b""):
        raise ValueError("must be the URL of an HTTP proxy without a path, such as http://proxy.example.com:3128")
    authorization = None
    if url.userinfo:
        pair = unquote(url.userinfo.decode("ascii")).encode()
        authorization = b"Basic " + base64.b64encode(pair if b":" in pair else pair + b":")
    port = url.port or (443 if url.scheme == "https" else 80)
    return Proxy(url.scheme, url.raw_host.decode("ascii"), port, authorization)


def find_proxy(environ: Mapping[str, str], base_url: str) -> str | None:
    """Return the proxy that the environment names for a server: HTTPS_PROXY or HTTP_PROXY, else ALL_PROXY, in small
    letters or capitals, unless NO_PROXY names the host. Loopback addresses never have one, as in Go's
    `http.ProxyFromEnvironment`.
    """
    url = httpx.URL(base_url)
    variables = {name.lower(): value for name, value in sorted(environ.items()) if name.lower().endswith("_proxy")}
    proxy = variables.get(f"{url.scheme}_proxy") or variables.get("all_proxy")
    if not proxy or _is_loopback(url.host) or _matches(variables.get("no_proxy", ""), url):
        return None
    return proxy


def _is_loopback(host: str) -> bool:
    if host.rstrip(".").lower() == "localhost" or host.lower().endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _matches(no_proxy: str, url: httpx.URL) -> bool:
    """Whether a list such as `localhost,.corp.example,10.0.0.0/8,host:8000,*` names the URL's host."""
    host = url.host.rstrip(".").lower()
    port = url.port or (443 if url.scheme == "https" else 80)
    for word in no_proxy.replace(",", " ").lower().split():
        if word == "*" or _is_in_network(host, word):
            return True
        name, colon, digits = word.rpartition(":")
        if colon and digits.isdigit() and (":" not in name or name.endswith("]")):
            if int(digits) != port:
                continue
            word = name
        word = word.strip("[]").removeprefix("*").strip(".")
        if word and (host == word or host.endswith(f".{word}")):
            return True
    return False


def _is_in_network(host: str, word: str) -> bool:
    try:
        return ip_address(host) in ip_network(word.strip("[]"), strict=False)
    except ValueError:
        return False


def make_ssl_context(options: ConnectionOptions) -> ssl.SSLContext:
    """Make the context of a server's connections.

    Raises OSError, of which ssl.SSLError is one, for a file that cannot be read or does not hold what it should.
    """
    if options.ca_file is None:
        context = httpx.create_ssl_context()
    else:
        context = ssl.create_default_context(cafile=options.ca_file)
    if options.client_certificate is not None:
        context.load_cert_chain(options.client_certificate, options.client_key, password=_refuse_password)
    return context


def _refuse_password() -> str:
    """Keep OpenSSL from asking the terminal."""
    raise ssl.SSLError("the key has a password; store it without one")


def file_times(options: ConnectionOptions) -> tuple[int, ...]:
    """Return when the files were changed, so that a renewed certificate is noticed; 0 for one that cannot be read."""
    return tuple(map(_changed_at, (options.ca_file, options.client_certificate, options.client_key)))


def _changed_at(path: str | None) -> int:
    try:
        return 0 if path is None else Path(path).stat().st_mtime_ns
    except OSError:
        return 0
