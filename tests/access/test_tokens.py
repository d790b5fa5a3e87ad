"""JWTs: which are accepted, what each refusal says, and the attacks that are known of other gateways."""

import base64
import contextlib
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from app.access import Caller
from app.access.caller import KeysOutdated
from app.access.issuer import Issuer, TeamRights
from app.access.jwk_set import JwkSet, parse_jwk_set
from app.access.tokens import MAX_REMEMBERED, MAX_TOKEN_BYTES, TokenVerifier
from app.errors import Forbidden, InvalidToken, ParleyError, StoreDown
from app.limits.values import NO_LIMITS, Team
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.each_case import each_case
from tests.effort import effort
from tests.fuzz_values import JSON, TEXTS, record
from tests.token_issuer import make_jwk, make_private_key, sign

NOW = 1_800_000_000
ALL = frozenset({"RS256", "PS256", "ES256", "ES384", "EdDSA"})
ISSUER = Issuer(
    "kc", "https://idp.test", frozenset({"parley"}), ALL, 30.0, "sub", *(None,) * 6, teams={}, limits=NO_LIMITS
)
OTHER = replace(ISSUER, name="other", url="https://other.test", audiences=frozenset({"elsewhere"}))


def keys(*rows: dict[str, Any]) -> JwkSet:
    return parse_jwk_set(json.dumps({"keys": rows}).encode())


class Source:
    def __init__(self, *rows: dict[str, Any]) -> None:
        self.keys: JwkSet | None = keys(*rows) if rows else None
        self.version = 1
        self.error = "connection refused"

    async def refresh(self) -> bool:
        raise AssertionError("a token is verified without input and output")

    def replace(self, *rows: dict[str, Any]) -> None:
        self.keys, self.version = keys(*rows), self.version + 1


EC, RSA = make_jwk("ES256", "1"), make_jwk("RS256", "r")
SOURCE = Source(EC, RSA, make_jwk("ES384", "3"), make_jwk("EdDSA", "e"))


def claims(**changed: Any) -> dict[str, Any]:
    whole = {"iss": ISSUER.url, "aud": "parley", "sub": "alice", "exp": NOW + 300, **changed}
    return {name: value for name, value in whole.items() if value is not None}


def verifier(*pairs: tuple[Issuer, Source], now: float = NOW) -> TokenVerifier:
    return TokenVerifier(pairs or [(ISSUER, SOURCE)], lambda: now)


def verify(token: str | bytes, tokens: TokenVerifier | None = None) -> Caller:
    data = token.encode() if isinstance(token, str) else token
    return (tokens or verifier()).authenticate(data, hashlib.sha256(data).digest())


def refusal(token: str | bytes, tokens: TokenVerifier | None = None) -> str:
    """Return the message, which never has the token."""
    try:
        found = verify(token, tokens)
    except InvalidToken as error:
        answer: ParleyError = error
    except KeysOutdated as error:
        answer = error.answer
    else:
        raise AssertionError(f"accepted as {found.name}")
    shown = token if isinstance(token, str) else token.decode("latin-1")
    assert len(shown) < 20 or shown[:20] not in answer.message
    assert answer.code in ("invalid_api_key", "overloaded")
    return answer.message


def encode(part: Any) -> str:
    data = part if isinstance(part, bytes) else json.dumps(part).encode()
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def forge(header: Any, payload: Any, signature: bytes = b"") -> str:
    return f"{encode(header)}.{encode(payload)}.{encode(signature)}"


def sign_hs256(header: dict[str, Any], payload: dict[str, Any], secret: bytes) -> str:
    text = f"{encode(header)}.{encode(payload)}"
    return f"{text}.{encode(hmac.digest(secret, text.encode(), 'sha256'))}"


def test_tokens_of_every_algorithm_of_the_issuer_are_accepted() -> None:
    assert verify(sign(claims(), "ES256", "1")).name == "kc:alice"
    assert verify(sign(claims(aud=["a", "parley"]), "ES384", "3")).name == "kc:alice"
    assert verify(sign(claims(nbf=NOW, iat=NOW + 9999), "EdDSA", "e")).name == "kc:alice"
    assert verify(sign(claims(exp=NOW + 0.5), "RS256", "r")).name == "kc:alice"
    assert verify(sign(claims(), "PS256", "r")).name == "kc:alice"


# -- signatures ---------------------------------------------------------------------------------


@each_case("algorithm", ["none", "None", "nOnE", "", "HS256", "hs256", "ES256K", "RS512", None, 7, ["ES256"], {"a": 1}])
def test_an_algorithm_that_is_not_the_issuers_is_refused(algorithm: Any) -> None:
    for signature in (b"", b"x" * 64):
        assert "the JWT has the algorithm" in refusal(forge({"alg": algorithm, "kid": "1"}, claims(), signature))


def test_a_token_signed_with_the_public_key_as_a_secret_is_refused() -> None:
    public = make_private_key("RS256").public_key()
    secrets = [
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.PEM, PublicFormat.PKCS1),
        RSA["n"].encode(),
        json.dumps(RSA).encode(),
    ]
    for secret in secrets:
        for kid in ("r", "1"):
            assert "algorithm" in refusal(sign_hs256({"alg": "HS256", "kid": kid}, claims(), secret))
            assert "signature" in refusal(sign_hs256({"alg": "RS256", "kid": "r"}, claims(), secret))


@each_case("kid", ["2", "../../../../dev/null", "1' OR '1'='1", "https://evil.test/keys", "", "\0", "1\n", "R"])
def test_the_name_of_a_key_is_compared_and_nothing_else(kid: str) -> None:
    with pytest.raises(KeysOutdated) as caught:
        verify(sign(claims(), kid=kid, number=1))
    assert "publishes no such key" in caught.value.answer.message


def test_a_name_of_a_key_that_is_not_a_string_is_refused() -> None:
    for kid in (1, ["1"], {"1": 1}, None):
        assert "`kid` must be a string" in refusal(forge({"alg": "ES256", "kid": kid}, claims(), b"x" * 64))


def test_keys_and_urls_of_keys_in_a_token_are_not_read() -> None:
    own = make_jwk("ES256", "own", 1)
    for more in (
        {"jwk": own},
        {"jku": "https://evil.test/keys"},
        {"x5u": "https://evil.test/cert.pem"},
        {"x5c": ["MIIB"]},
    ):
        assert "signature" in refusal(sign(claims(), kid="1", number=1, **more))
        assert "no such key" in refusal(sign(claims(), kid="own", number=1, **more))
        assert verify(sign(claims(), kid="1", **more)).name == "kc:alice"


def test_signatures_that_are_empty_zero_changed_or_of_another_token_are_refused() -> None:
    good = sign(claims())
    head, payload, signature = good.split(".")
    _, other_payload, other_signature = sign(claims(sub="bob")).split(".")
    zero = encode(bytes(64))
    for token in (
        f"{head}.{payload}.",
        f"{head}.{payload}.{zero}",
        f"{head}.{other_payload}.{signature}",
        f"{head}.{payload}.{other_signature}",
        f"{head}.{payload}.{signature[:-4]}",
        f"{head}.{payload}.{signature}AAAA",
        f"{head}.{payload}.!{signature}",
        f"{head}.!{payload}.{signature}",
    ):
        assert "signature" in refusal(token)


def test_a_key_is_used_only_with_its_own_algorithm() -> None:
    source = Source({**RSA, "alg": "PS256"})
    assert verify(sign(claims(), "PS256", "r"), verifier((ISSUER, source))).name == "kc:alice"
    assert "no such key" in refusal(sign(claims(), "RS256", "r"), verifier((ISSUER, source)))


def test_a_token_without_the_name_of_its_key_is_tried_with_the_keys_of_its_algorithm() -> None:
    source = Source(make_jwk("ES256", "a", 1), make_jwk("ES256", "b"), RSA)
    assert verify(sign(claims(), kid=None), verifier((ISSUER, source))).name == "kc:alice"
    assert "has no `kid`" in refusal(sign(claims(), "EdDSA", None), verifier((ISSUER, source)))
    many = Source(*(make_jwk("ES256", str(number), 1) for number in range(8)), make_jwk("ES256", "last"))
    assert "signature" in refusal(sign(claims(), kid=None), verifier((ISSUER, many)))


# -- issuers and audiences ----------------------------------------------------------------------


def test_each_issuer_has_its_own_keys_although_their_names_are_the_same() -> None:
    tokens = verifier((ISSUER, Source(EC)), (OTHER, Source(make_jwk("ES256", "1", 1))))
    of_other = claims(iss=OTHER.url, aud="elsewhere")
    assert verify(sign(claims()), tokens).name == "kc:alice"
    assert verify(sign(of_other, number=1), tokens).name == "other:alice"
    assert "signature" in refusal(sign(of_other), tokens)
    assert "signature" in refusal(sign(claims(), number=1), tokens)


def test_a_token_for_the_audience_of_another_issuer_is_refused() -> None:
    tokens = verifier((ISSUER, Source(EC)), (OTHER, Source(EC)))
    assert "the audience 'elsewhere' (claim `aud`)" in refusal(sign(claims(aud="elsewhere")), tokens)
    assert "Get one for elsewhere" in refusal(sign(claims(iss=OTHER.url)), tokens)


@each_case(
    ("audience", "words"),
    [
        (None, "no audience"),
        ("parley-evil", "'parley-evil'"),
        ("Parley", "'Parley'"),
        ([], "[]"),
        ([["parley"], {"parley": 1}, 7], "is not for this gateway"),
        ({"parley": True}, "is not for this gateway"),
        (["x" * 5000], "…"),
    ],
)
def test_another_audience_is_refused(audience: Any, words: str) -> None:
    message = refusal(sign(claims(aud=audience)))
    assert words in message
    assert len(message) < 400


@each_case(
    ("issuer", "words"),
    [
        (None, "no issuer"),
        (7, "`iss` is no string"),
        (["https://idp.test"], "`iss` is no string"),
        ("https://idp.test/", "configured as 'https://idp.test', and a slash at the end counts"),
        ("https://IDP.test", "'https://IDP.test' is not known here"),
        ("https://idp.test.evil.test", "is not known here"),
        ("kc", "is not known here"),
    ],
)
def test_another_issuer_is_refused(issuer: Any, words: str) -> None:
    payload = {**claims(), "iss": issuer} if issuer is not None else claims(iss=None)
    assert words in refusal(forge({"alg": "ES256", "kid": "1"}, payload, b"x" * 64))


def test_a_missing_slash_of_the_issuer_is_named_too() -> None:
    tokens = verifier((replace(ISSUER, url="https://tenant.auth0.test/"), SOURCE))
    assert "configured as 'https://tenant.auth0.test/'" in refusal(
        sign(claims(iss="https://tenant.auth0.test")), tokens
    )


# -- times --------------------------------------------------------------------------------------


@each_case(
    ("changed", "words"),
    [
        ({"exp": None}, "no claim 'exp'"),
        ({"exp": NOW - 31}, "expired at 2027-01-15T07:59:29Z"),
        ({"exp": -1e300}, "expired at -1e+18"),
        ({"exp": -(10**400)}, "expired at -1e+18"),
        ({"exp": str(NOW + 300)}, "'exp' of the JWT must be a number of seconds"),
        ({"exp": True}, "must be a number"),
        ({"exp": [NOW + 300]}, "must be a number"),
        ({"nbf": NOW + 31}, "valid from 2027-01-15T08:00:31Z on (claim `nbf`), and here it is 2027-01-15T08:00:00Z"),
        ({"nbf": 1e30}, "valid from 1e+18 on"),
        ({"nbf": "now"}, "'nbf' of the JWT must be a number"),
    ],
)
def test_a_token_that_is_not_valid_now_is_refused(changed: dict[str, Any], words: str) -> None:
    assert words in refusal(
        sign(
            {
                **claims(exp=changed.get("exp", NOW + 300)),
                **{"nbf": NOW},
                **{name: value for name, value in changed.items() if value is not None},
            }
        )
    )


def test_the_leeway_is_for_clocks_that_differ() -> None:
    assert verify(sign(claims(exp=NOW - 29, nbf=NOW + 30))).name == "kc:alice"
    assert "expired" in refusal(sign(claims(exp=NOW - 1)), verifier((replace(ISSUER, leeway_seconds=0), SOURCE)))


# -- form ---------------------------------------------------------------------------------------


@each_case(
    ("token", "words"),
    [
        (b"eyJ", "1 parts instead of 3"),
        (b"eyJ.x", "2 parts"),
        (b"eyJ.x.y.z", "4 parts"),
        (b"eyJ.x.y.z.w", "encrypted (JWE)"),
        (b"eyJ" + b"A" * MAX_TOKEN_BYTES, f"at most {MAX_TOKEN_BYTES}"),
        (b"eyJ!.x.y", "header is not a JSON object"),
        (b"eyJ\xff.x.y", "header is not a JSON object"),
        (forge([], {}), "header is not a JSON object"),
        (forge({}, b"[]"), "payload is not a JSON object"),
        (forge({}, b"\xff\xfe"), "payload is not a JSON object"),
        (forge({}, b'{"exp": Infinity}'), "payload is not a JSON object"),
        (forge({}, b'{"a":' + b"[" * 8000), "payload is not a JSON object"),
        (forge({"crit": ["b64"], "b64": False}, {}), "`crit` demands an extension"),
        (forge({"crit": []}, {}), "`crit` demands an extension"),
    ],
)
def test_what_is_not_a_token_is_refused(token: str | bytes, words: str) -> None:
    assert words in refusal(token)


TOKEN_FIELDS = record(
    {
        "iss": st.just(ISSUER.url),
        "aud": st.sampled_from(["parley", ["parley"]]),
        "sub": TEXTS,
        "exp": st.sampled_from([NOW + 5, NOW - 99, 10**400, 1.5]),
        "nbf": st.sampled_from([NOW, -(10**400)]),
        "team": st.sampled_from(["x", ["x"], "y"]),
        "models": st.sampled_from(["*", ["m", "*"], []]),
        "realm": st.builds(lambda roles: {"roles": roles}, JSON),
    }
)
HEADERS = record({"alg": st.sampled_from(["ES256", "none"]), "kid": TEXTS, "crit": JSON, "jwk": st.just(EC)})
CURIOUS = replace(
    ISSUER,
    team_claim="team",
    models_claim="models",
    admin_claim="realm.roles",
    admin_value="root",
    teams={"x": TeamRights(Team("x", NO_LIMITS), None)},
)


@effort(20)
@given(TOKEN_FIELDS, HEADERS, st.binary(max_size=70))
@example({"exp": 10**400}, {"alg": 10**4000}, b"")
def test_no_token_makes_the_gateway_fail(payload: dict[str, Any], header: dict[str, Any], signature: bytes) -> None:
    data = json.dumps(payload).encode()
    signed = jwt.PyJWS().encode(data, make_private_key("ES256"), "ES256", headers={"kid": "1"})
    for token in (signed, forge(json.dumps(header).encode(), data, signature), b"eyJ" + signature):
        text = token if isinstance(token, bytes) else token.encode()
        with contextlib.suppress(InvalidToken, KeysOutdated, Forbidden):
            assert verifier((CURIOUS, SOURCE)).authenticate(text, b"").name.startswith("kc:")


def test_a_payload_that_is_not_encoded_is_refused() -> None:
    assert "signature" in refusal(forge({"alg": "ES256", "kid": "1", "b64": False}, claims(), b"x" * 64))


# -- what is remembered -------------------------------------------------------------------------


class Clock:
    now = float(NOW)

    def __call__(self) -> float:
        return self.now


def test_a_token_is_verified_once_until_it_expires() -> None:
    clock, source = Clock(), Source(EC)
    tokens = TokenVerifier([(ISSUER, source)], clock)
    token = sign(claims())
    found = verify(token, tokens)
    assert verify(token, tokens) is found
    assert tokens.callers() == [found]
    assert verify(sign(claims(jti="2")), tokens) is not found
    assert [caller.name for caller in tokens.callers()] == ["kc:alice"]
    clock.now = NOW + 330
    assert "expired" in refusal(token, tokens)


def test_a_key_that_is_revoked_verifies_no_token_any_more_also_no_remembered_one() -> None:
    source = Source(EC)
    tokens = TokenVerifier([(ISSUER, source)], lambda: NOW)
    token = sign(claims())
    verify(token, tokens)
    source.replace(make_jwk("ES256", "2"))
    assert "no such key" in refusal(token, tokens)
    source.replace(make_jwk("ES256", "1", 1))
    assert "signature" in refusal(token, tokens)


def test_what_is_remembered_is_bounded() -> None:
    tokens = verifier()
    tokens.authenticate(first := sign(claims(sub="first")).encode(), b"first")
    row = next(iter(tokens._verified.values()))
    tokens._verified.update({str(number).encode(): row for number in range(MAX_REMEMBERED - 1)})
    tokens.authenticate(sign(claims(sub="last")).encode(), b"last")
    assert len(tokens._verified) == MAX_REMEMBERED
    assert b"first" not in tokens._verified
    assert [caller.name for caller in tokens.callers()] == ["kc:first", "kc:last"]
    assert tokens.authenticate(first, b"first").name == "kc:first"


def test_a_token_is_neither_valid_nor_invalid_while_the_keys_were_never_fetched() -> None:
    with pytest.raises(KeysOutdated) as caught:
        verify(sign(claims()), verifier((ISSUER, Source())))
    assert isinstance(caught.value.answer, StoreDown)
    assert "could not be fetched: connection refused" in caught.value.answer.message
    assert caught.value.answer.retryable
