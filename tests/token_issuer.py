"""An identity provider in this process: it signs JWTs, and its keys and configuration are answers of a transport."""

import json
import time
from functools import cache
from typing import Any

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import get_default_algorithms

ISSUER = "https://idp.test/realms/agents"
AUDIENCE = "parley"
KEYS_URL = f"{ISSUER}/certs"


def make_private_key(algorithm: str, number: int = 0) -> Any:
    """Return a key for this algorithm, the same for the same number."""
    return _make_key("RSA" if algorithm[:2] in ("RS", "PS") else algorithm, number)


@cache
def _make_key(algorithm: str, _: int) -> Any:
    if algorithm.startswith("ES"):
        return ec.generate_private_key({"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1()}[algorithm])
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    return rsa.generate_private_key(65537, 2048)


def make_jwk(algorithm: str, kid: str | None, number: int = 0, **more: Any) -> dict[str, Any]:
    """Return the public key as a JWK."""
    public = make_private_key(algorithm, number).public_key()
    row: dict[str, Any] = get_default_algorithms()[algorithm].to_jwk(public, as_dict=True)
    row.pop("key_ops", None)
    return {**row, "use": "sig", **({} if kid is None else {"kid": kid}), **more}


def make_claims(**claims: Any) -> dict[str, Any]:
    """Return claims of a valid token; None leaves one out."""
    now = int(time.time())
    whole = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "iat": now, "exp": now + 300, **claims}
    return {name: value for name, value in whole.items() if value is not None}


def sign(
    claims: dict[str, Any], algorithm: str = "ES256", kid: str | None = "1", number: int = 0, **headers: Any
) -> str:
    named = {} if kid is None else {"kid": kid}
    return jwt.encode(claims, make_private_key(algorithm, number), algorithm, headers={**named, **headers})


class IdentityProvider:
    """Answers for its configuration and its keys; `requests` counts what it was asked for."""

    def __init__(self, *keys: dict[str, Any], issuer: str = ISSUER) -> None:
        self.keys = list(keys) or [make_jwk("ES256", "1")]
        self.issuer = issuer
        self.requests: list[str] = []
        self.answer: httpx.Response | Exception | None = None
        """What it answers instead of its keys."""

    def __call__(self, request: httpx.Request) -> httpx.Response | None:
        """Return None for a request to another server."""
        url = str(request.url)
        if not url.startswith(self.issuer):
            return None
        self.requests.append(url)
        if url.endswith("/.well-known/openid-configuration"):
            return httpx.Response(200, json={"issuer": self.issuer, "jwks_uri": f"{self.issuer}/certs"})
        return self.answer_keys(request)

    def answer_keys(self, _: httpx.Request) -> httpx.Response:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer or httpx.Response(200, content=json.dumps({"keys": self.keys}).encode())
