"""Fetching the keys of issuers of JWTs: how often, from where, and what is kept while a provider fails."""

import asyncio
import gzip
import json
import logging
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from app.access.jwks import (
    MAX_DOCUMENT_BYTES,
    MIN_SECONDS,
    JwksError,
    JwksLocation,
    JwksSource,
    JwksSources,
    fetch_jwks,
    read_jwks_file,
)
from app.upstream.http.options import ConnectionOptions

from tests.each_case import each_case
from tests.in_process_gateway import ModelServer
from tests.token_issuer import ISSUER, KEYS_URL, IdentityProvider, make_jwk

pytestmark = pytest.mark.anyio
DISCOVERED = JwksLocation("kc", ISSUER)
NAMED = JwksLocation("kc", ISSUER, KEYS_URL)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def transport(answer: Callable[[httpx.Request], httpx.Response | None]) -> ModelServer:
    return ModelServer(lambda request: answer(request) or httpx.Response(404))


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


async def mistake(location: JwksLocation, answer: Callable[[httpx.Request], httpx.Response | None]) -> str:
    with pytest.raises(JwksError) as caught:
        await fetch_jwks(location, transport(answer))
    return str(caught.value)


# -- one fetch ----------------------------------------------------------------------------------


async def test_keys_are_found_below_the_issuer_or_at_their_url_or_in_a_file(tmp_path: Path) -> None:
    provider = IdentityProvider()
    found = await fetch_jwks(DISCOVERED, transport(provider))
    assert (found.place, found.keys.names) == (KEYS_URL, ["1"])
    assert provider.requests == [f"{ISSUER}/.well-known/openid-configuration", KEYS_URL]
    provider.requests.clear()
    assert await fetch_jwks(NAMED, transport(provider)) == found
    assert provider.requests == [KEYS_URL]
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": provider.keys}))
    assert (await fetch_jwks(JwksLocation("kc", "any", None, str(file)), transport(provider))).keys == found.keys


async def test_a_request_for_keys_has_the_connection_options_of_its_issuer_and_no_key_of_anyone() -> None:
    server = transport(IdentityProvider())
    options = ConnectionOptions(ca_file="/ca.pem")
    await fetch_jwks(JwksLocation("kc", ISSUER, KEYS_URL, connections=options), server)
    (request,) = server.requests
    assert request.extensions["pool_key"] == ("jwt kc", 2, options)
    assert not {"authorization", "cookie", "x-api-key"} & set(request.headers)


@each_case(
    ("answer", "words"),
    [
        (httpx.Response(302, headers={"location": "http://169.254.169.254/"}), "redirect (302), which is not followed"),
        (httpx.Response(503), "answers 503"),
        (httpx.Response(200, content=b"<html>"), "it is not JSON"),
        (httpx.Response(200, content=b"x" * 10_000_000), f"is larger than {MAX_DOCUMENT_BYTES} bytes"),
        (httpx.Response(200, headers={"content-encoding": "br"}, content=b"x"), "cannot be read"),
        (httpx.ConnectError("refused"), "the connection could not be made"),
        (httpx.ConnectTimeout("late"), "gave no answer within"),
        (httpx.ReadError("reset"), "the connection broke"),
        (httpx.RemoteProtocolError("bad"), "not valid HTTP"),
    ],
)
def test_what_is_no_document_of_keys_is_explained(answer: httpx.Response | Exception, words: str) -> None:
    provider = IdentityProvider()
    provider.answer = answer
    found = asyncio.run(mistake(NAMED, provider))
    assert KEYS_URL in found
    assert words in found


async def test_a_compressed_document_is_read_but_a_bomb_is_not() -> None:
    provider = IdentityProvider()
    headers = {"content-encoding": "gzip"}
    data = gzip.compress(json.dumps({"keys": provider.keys}).encode())
    server = ModelServer(lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(data)))
    assert (await fetch_jwks(NAMED, server)).keys.names == ["1"]
    bomb = gzip.compress(bytes(100_000_000))
    server = ModelServer(lambda _: httpx.Response(200, headers=headers, stream=httpx.ByteStream(bomb)))
    with pytest.raises(JwksError):
        await fetch_jwks(NAMED, server)


async def test_a_configuration_of_another_issuer_or_with_another_kind_of_url_is_refused() -> None:
    def configuration(content: object) -> Callable[[httpx.Request], httpx.Response]:
        return lambda _: httpx.Response(200, json=content)

    other = configuration({"issuer": "https://evil.test", "jwks_uri": KEYS_URL})
    assert "is the configuration of the issuer 'https://evil.test'" in await mistake(DISCOVERED, other)
    for url in (None, 7, "http://idp.test/keys", "file:///etc/passwd", "//idp.test/keys"):
        found = await mistake(DISCOVERED, configuration({"issuer": ISSUER, "jwks_uri": url}))
        assert "names no https URL of keys" in found
    assert "is not a JSON object" in await mistake(DISCOVERED, configuration([]))
    assert "answers 404" in await mistake(DISCOVERED, lambda _: None)
    plain = JwksLocation("kc", "http://idp.test")
    listed = configuration({"issuer": "http://idp.test", "jwks_uri": "http://[::bad", "keys": []})
    assert "http://[::bad" in await mistake(plain, listed)


async def test_a_provider_that_does_not_answer_is_left_after_some_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.access.jwks.FETCH_SECONDS", 0.01)

    class Silent(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await asyncio.Event().wait()
            raise AssertionError

    with pytest.raises(JwksError, match="agents gave no answer within"):
        await fetch_jwks(DISCOVERED, Silent())


def test_a_file_that_is_missing_too_large_or_no_key_set_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "keys.json"
    for content, words in [
        (None, "cannot be read (No such file or directory)"),
        (b"x" * (MAX_DOCUMENT_BYTES + 1), "is larger than"),
        (b"{}", "no list"),
    ]:
        if content is not None:
            file.write_bytes(content)
        with pytest.raises(JwksError) as caught:
            read_jwks_file(str(file))
        assert words in str(caught.value)


# -- many fetches -------------------------------------------------------------------------------


async def test_many_tokens_with_unknown_keys_are_one_fetch_in_some_seconds() -> None:
    provider, clock = IdentityProvider(), Clock()
    source = JwksSource(NAMED, transport(provider), clock)
    assert await asyncio.gather(*(source.refresh() for _ in range(100))) == [True] * 100
    assert len(provider.requests) == 1
    provider.keys = [make_jwk("ES256", "2")]
    clock.now = MIN_SECONDS - 0.1
    assert await asyncio.gather(*(source.refresh() for _ in range(100))) == [False] * 100
    assert len(provider.requests) == 1
    clock.now = MIN_SECONDS
    assert await source.refresh()
    assert source.keys is not None
    assert (source.keys.names, source.version, len(provider.requests)) == (["2"], 2, 2)
    clock.now = 2 * MIN_SECONDS
    assert not await source.refresh()
    assert source.version == 2


async def test_the_last_keys_stay_while_the_provider_fails(caplog: pytest.LogCaptureFixture) -> None:
    provider, clock = IdentityProvider(), Clock()
    source = JwksSource(NAMED, transport(provider), clock)
    await source.refresh()
    kept = source.keys
    with caplog.at_level(logging.INFO, "parley.jwt"):
        for answer in (httpx.ConnectError("refused"), httpx.Response(500), httpx.Response(200, content=b'{"keys":[]}')):
            provider.answer = answer
            clock.now += MIN_SECONDS
            assert not await source.refresh()
            assert source.keys is kept
            assert source.error
        provider.answer, provider.keys = None, [make_jwk("ES256", "2")]
        clock.now += MIN_SECONDS
        assert await source.refresh()
    assert source.error == ""
    assert [row.levelname for row in caplog.records] == ["WARNING", "INFO"]
    assert "were not fetched; the last ones stay" in caplog.text


async def test_a_defect_does_not_end_the_fetching(caplog: pytest.LogCaptureFixture) -> None:
    provider, clock = IdentityProvider(), Clock()
    provider.answer = RuntimeError("defect")
    source = JwksSource(NAMED, transport(provider), clock)
    assert not await source.refresh()
    assert "defect while fetching the keys of the JWT issuer kc" in caplog.text
    provider.answer, clock.now = None, MIN_SECONDS
    assert await source.refresh()


async def test_a_client_that_leaves_does_not_end_the_fetch_for_the_others() -> None:
    gate = asyncio.Event()

    class Slow(ModelServer):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            await gate.wait()
            return await super().handle_async_request(request)

    source = JwksSource(NAMED, Slow(IdentityProvider().answer_keys), Clock())
    first, second = (asyncio.create_task(source.refresh()) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    gate.set()
    assert await second


async def test_keys_are_fetched_at_intervals_from_the_start_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.access.jwks.FILE_SECONDS", 0.001)
    file = tmp_path / "keys.json"
    file.write_text(json.dumps({"keys": [make_jwk("ES256", "1")]}))
    location = JwksLocation("kc", "any", None, str(file))
    sources = JwksSources(transport(lambda _: None))
    source = sources.get(location)
    sources.keep([location])
    await asyncio.sleep(0)
    assert (source.version, [*sources]) == (0, [source])
    sources.start()
    async with asyncio.timeout(5):
        while source.version != 1:
            await asyncio.sleep(0.001)
        file.write_text(json.dumps({"keys": [make_jwk("ES256", "2")]}))
        while source.version != 2:
            await asyncio.sleep(0.001)
    sources.keep([location])
    assert sources.get(location) is source
    await sources.aclose()


async def test_the_keys_of_a_configuration_that_was_refused_are_not_fetched() -> None:
    provider = IdentityProvider()
    sources = JwksSources(transport(provider))
    sources.keep([NAMED])
    sources.start()
    sources.get(JwksLocation("refused", "https://refused.test"))
    assert [source.location for source in sources] == [NAMED]
    sources.keep([NAMED])
    await sources.get(NAMED).refresh()
    assert provider.requests == [KEYS_URL]
    await sources.aclose()


async def test_issuers_that_are_no_longer_configured_are_not_asked_any_more() -> None:
    provider = IdentityProvider()
    sources = JwksSources(transport(provider))
    source = sources.get(NAMED)
    sources.start()
    sources.keep([NAMED])
    await source.refresh()
    sources.keep([DISCOVERED])
    assert sources.get(NAMED) is not source
    assert source._repeating is not None
    await asyncio.gather(source._repeating, return_exceptions=True)
    assert source._repeating.cancelled()
    await sources.aclose()
