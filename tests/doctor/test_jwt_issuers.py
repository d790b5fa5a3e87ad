"""`parley doctor` and issuers of JWTs: what it says about keys that it fetches, and about those that it cannot."""

from typing import Any

import httpx
import pytest
from app.config.settings import Settings
from app.doctor.jwt_issuers import check_jwt_issuers

from tests.in_process_gateway import ModelServer
from tests.token_issuer import ISSUER, KEYS_URL, IdentityProvider, make_jwk

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


async def check(provider: IdentityProvider, **issuers: dict[str, Any]) -> list[tuple[str, str, str]]:
    rows = {name: {"issuer": f"https://{name}.test", "audience": "parley", **row} for name, row in issuers.items()}
    settings = Settings.model_validate({"demo": True, "jwt": rows})
    shown: list[str] = []
    server = ModelServer(lambda request: provider(request) or httpx.Response(404))
    found = await check_jwt_issuers(settings, shown.append, server)
    assert shown == (["the issuers of JWTs"] if rows else [])
    return [(row.subject.removeprefix("JWT issuer "), row.status, row.message) for row in found]


async def test_the_keys_of_each_issuer_are_named_or_why_there_are_none() -> None:
    provider = IdentityProvider(make_jwk("ES256", "1"), {"kty": "oct", "kid": "secret", "k": "eA"})
    found = await check(
        provider,
        good={"issuer": ISSUER},
        strict={"jwks_url": KEYS_URL, "algorithms": ["RS256"]},
        bad={"jwks_url": "https://other.test/keys"},
    )
    assert found == [
        ("good", "ok", f"{KEYS_URL}: 1 (ES256)"),
        ("good", "ok", "keys that are not used: key secret: it is a symmetric key"),
        ("strict", "ok", f"{KEYS_URL}: 1 (ES256)"),
        ("strict", "problem", "no key is for one of the algorithms RS256, so every token is refused"),
        ("strict", "ok", "keys that are not used: key secret: it is a symmetric key"),
        ("bad", "problem", "https://other.test/keys answers 404"),
    ]


async def test_keys_over_plain_http_are_a_warning_and_many_keys_are_a_number() -> None:
    provider = IdentityProvider(*(make_jwk("ES256", str(number)) for number in range(12)), issuer="http://idp.test")
    (first, second) = await check(provider, plain={"issuer": "http://idp.test"})
    assert first[2].endswith("9 (ES256) and 2 more")
    assert (second[1], "plain HTTP" in second[2]) == ("warning", True)
    assert await check(provider) == []
