"""`JwksSources`: the keys of issuers of JWTs, fetched from their identity providers or read from files.

They are fetched in the background, at intervals. A token of which no key is known lets them be fetched at once, but at
most once in `MIN_SECONDS`, whatever tokens come. While an identity provider cannot be reached its last keys stay.

Redirects are not followed, and no URL comes from a token.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import httpx
import msgspec
from msgspec import Struct

from app import __version__
from app.access.jwk_set import JwkSet, parse_jwk_set
from app.runtime.decompress import decompressor_for
from app.runtime.throttled_log import ThrottledLog
from app.upstream import causes
from app.upstream.http.options import DEFAULT_OPTIONS, ConnectionOptions
from app.upstream.http.pool import PoolKey
from app.upstream.http.transport import UpstreamTransport

log = logging.getLogger("parley.jwt")

MIN_SECONDS = 10.0
"""The shortest time between two fetches of one issuer's keys."""
FILE_SECONDS = 5.0
"""How often a file is read again."""
FETCH_SECONDS = 10.0
"""The limit of a fetch with all its requests."""
MAX_DOCUMENT_BYTES = 512 * 1024
"""The largest documents of identity providers, with the certificates of their keys, have about 20 KB."""
DISCOVERY_PATH = "/.well-known/openid-configuration"
_CONNECTIONS = 2


class JwksError(Exception):
    """The keys of an issuer cannot be used; the message says why."""


class JwksLocation(Struct, frozen=True):
    """Where the keys of an issuer are."""

    name: str
    """That of the issuer in the settings."""
    issuer: str
    """Its URL, below which its configuration is found if there is neither a URL of the keys nor a file."""
    url: str | None = None
    file: str | None = None
    refresh_seconds: float = 300.0
    connections: ConnectionOptions = DEFAULT_OPTIONS


class FetchedJwks(Struct, frozen=True):
    place: str
    """The URL or the file."""
    keys: JwkSet


async def fetch_jwks(location: JwksLocation, transport: UpstreamTransport) -> FetchedJwks:
    """Fetch the keys of an issuer. Raises JwksError."""
    if location.file is not None:
        return FetchedJwks(location.file, await asyncio.to_thread(read_jwks_file, location.file))
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            url = location.url or await _discover(location, transport)
            data = await _get(url, location, transport)
    except (TimeoutError, httpx.TimeoutException):
        place = location.url or location.issuer
        raise JwksError(f"{place} gave no answer within {FETCH_SECONDS:g} s") from None
    try:
        # In a thread, because an attacker in the place of the provider could send a long document.
        return FetchedJwks(url, await asyncio.to_thread(parse_jwk_set, data))
    except ValueError as error:
        raise JwksError(f"{url}: {error}") from None


def read_jwks_file(path: str) -> JwkSet:
    """Raises JwksError."""
    try:
        with Path(path).open("rb") as file:
            data = file.read(MAX_DOCUMENT_BYTES + 1)
    except OSError as error:
        raise JwksError(f"{_name_place(path)} cannot be read ({error.strerror})") from None
    if len(data) > MAX_DOCUMENT_BYTES:
        raise JwksError(f"{path} is larger than {MAX_DOCUMENT_BYTES} bytes")
    try:
        return parse_jwk_set(data)
    except ValueError as error:
        raise JwksError(f"{path}: {error}") from None


def _name_place(path: str) -> str:
    """Return the absolute path, unless the working folder was deleted."""
    try:
        return str(Path(path).absolute())
    except FileNotFoundError:
        return path


async def _discover(location: JwksLocation, transport: UpstreamTransport) -> str:
    """Return the URL of the keys, from the issuer's configuration (OpenID Connect Discovery 1.0). Raises JwksError."""
    url = location.issuer.rstrip("/") + DISCOVERY_PATH
    try:
        found = msgspec.json.decode(await _get(url, location, transport), type=dict[str, object])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise JwksError(f"{url} is not a JSON object") from None
    issuer, keys = found.get("issuer"), found.get("jwks_uri")
    if issuer != location.issuer:
        raise JwksError(f"{url} is the configuration of the issuer {str(issuer)[:200]!r}: set `issuer` to it")
    secure = location.issuer.startswith("https:")
    if not isinstance(keys, str) or not keys.startswith(("https://",) if secure else ("https://", "http://")):
        raise JwksError(f"{url} names no {'https' if secure else 'http'} URL of keys (jwks_uri)")
    return keys


async def _get(url: str, location: JwksLocation, transport: UpstreamTransport) -> bytes:
    """Return a document. Raises JwksError."""
    try:
        request = httpx.Request(
            "GET",
            url,
            headers={
                "accept": "application/json",
                "accept-encoding": "identity",
                "user-agent": f"parley/{__version__}",
            },
            extensions={
                "timeout": {"connect": FETCH_SECONDS, "read": FETCH_SECONDS},
                "pool_key": PoolKey(f"jwt {location.name}", _CONNECTIONS, location.connections),
            },
        )
        response = await transport.handle_async_request(request)
        try:
            data = await _read(response, url)
        finally:
            await response.aclose()
    except httpx.TimeoutException:
        raise
    except httpx.ConnectError as error:
        cause = causes.find_connect_cause(error, tls=url.startswith("https:"))
        raise JwksError(f"{url}: {cause.text}") from None
    except httpx.TransportError as error:
        raise JwksError(f"{url}: {causes.find_exchange_cause(error, answered=False).text}") from None
    except (httpx.InvalidURL, OSError) as error:
        raise JwksError(f"{url}: {error}") from None
    return data


async def _read(response: httpx.Response, url: str) -> bytes:
    status, data = response.status_code, bytearray()
    if 300 <= status < 400:
        raise JwksError(f"{url} answers with a redirect ({status}), which is not followed: name the URL of the keys")
    if status != 200:
        raise JwksError(f"{url} answers {status}")
    try:
        decompressor = decompressor_for(response.headers.get("content-encoding"))
        async for chunk in response.aiter_raw():
            data += decompressor.feed(chunk, MAX_DOCUMENT_BYTES - len(data) + 1)
            if len(data) > MAX_DOCUMENT_BYTES:
                raise JwksError(f"{url} is larger than {MAX_DOCUMENT_BYTES} bytes")
    except ValueError as error:
        raise JwksError(f"{url} cannot be read: {error}") from None
    return bytes(data)


class JwksSource:
    """The keys of one issuer, in one event loop: a `KeySource`."""

    def __init__(self, location: JwksLocation, transport: UpstreamTransport, clock: Callable[[], float] | None) -> None:
        """`clock` returns the seconds of a clock that only goes forward; None: that of the event loop."""
        self.location = location
        self.keys: JwkSet | None = None
        self.version = 0
        self.error = "no answer yet"
        self._transport = transport
        self._clock = clock
        self._next_at = float("-inf")
        """Before this time no token lets the keys be fetched again."""
        self._fetching: asyncio.Task[None] | None = None
        self._repeating: asyncio.Task[None] | None = None
        self._throttled_log = ThrottledLog(log)

    def start(self) -> None:
        """Fetch the keys at intervals."""
        if self._repeating is None:
            self._repeating = asyncio.get_running_loop().create_task(self._repeat())

    async def refresh(self) -> bool:
        version = self.version
        if self._fetching is None:
            if self._now() < self._next_at:
                return False
            self._begin()
        assert self._fetching is not None
        await asyncio.shield(self._fetching)  # others may wait for it too
        return self.version != version

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._clock is None else self._clock()

    def _begin(self) -> None:
        self._fetching = asyncio.get_running_loop().create_task(self._fetch())

    async def _repeat(self) -> None:
        location = self.location
        seconds = FILE_SECONDS if location.file is not None else location.refresh_seconds
        while True:
            if self._fetching is None:
                self._begin()
            assert self._fetching is not None
            await asyncio.shield(self._fetching)
            await asyncio.sleep(min(seconds, MIN_SECONDS) if self.error else seconds)

    async def _fetch(self) -> None:
        try:
            fetched = await fetch_jwks(self.location, self._transport)
        except JwksError as error:
            self.error = str(error)
            self._throttled_log.warn(
                f"the keys of the JWT issuer {self.location.name} were not fetched; the last ones stay", error
            )
        except Exception:
            self.error = "the gateway failed"
            log.exception("defect while fetching the keys of the JWT issuer %s", self.location.name)
        else:
            self.error = ""
            if fetched.keys != self.keys:
                self.keys, self.version = fetched.keys, self.version + 1
                log.info(
                    "JWT issuer %s has the keys %s (%s)",
                    self.location.name,
                    ", ".join(fetched.keys.names),
                    fetched.place,
                )
        finally:
            self._next_at = self._now() + MIN_SECONDS
            self._fetching = None

    async def aclose(self) -> None:
        tasks = [task for task in (self._repeating, self._fetching) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class JwksSources:
    """The keys of all issuers. A reload of the configuration keeps those of issuers that have not changed."""

    def __init__(self, transport: UpstreamTransport, clock: Callable[[], float] | None = None) -> None:
        self._transport = transport
        self._clock = clock
        self._sources: dict[JwksLocation, JwksSource] = {}
        self._kept: tuple[JwksSource, ...] = ()
        """Those that are fetched. The others belong to a configuration that is not applied yet, or was refused."""
        self._started = False
        self._closing: set[asyncio.Task[None]] = set()

    def get(self, location: JwksLocation) -> JwksSource:
        """Return the keys at a location. They are fetched once `keep` was called with it. It may be called in any
        thread."""
        found = self._sources.get(location)
        return found or self._sources.setdefault(location, JwksSource(location, self._transport, self._clock))

    def __iter__(self) -> Iterator[JwksSource]:
        return iter(self._kept)

    def start(self) -> None:
        self._started = True
        for source in self._kept:
            source.start()

    def keep(self, locations: Iterable[JwksLocation]) -> None:
        """Fetch the keys at these locations from now on, and no others."""
        kept = {location: self.get(location) for location in locations}
        for source in self._kept:
            if source.location not in kept:
                task = asyncio.get_running_loop().create_task(source.aclose())
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
        self._sources, self._kept = kept, (*kept.values(),)
        if self._started:
            self.start()

    async def aclose(self) -> None:
        await asyncio.gather(*(source.aclose() for source in self._kept), *self._closing)
