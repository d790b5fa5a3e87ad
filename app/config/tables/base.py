"""What the tables share: their base class, and values that several of them have."""

import re
from typing import Annotated, Any, TypeAlias

import httpx
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from app.params import MAX_SECONDS
from app.upstream.http.options import parse_proxy


class Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


Seconds: TypeAlias = Annotated[float, Field(gt=0, le=MAX_SECONDS, allow_inf_nan=False)]


def split_list(value: Any) -> Any:
    """Split a list that an environment variable holds as words separated by commas."""
    return [word.strip() for word in value.split(",") if word.strip()] if isinstance(value, str) else value


VariableName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
"""The name of an environment variable."""
Names = Annotated[tuple[str, ...], BeforeValidator(split_list)]


def _header_value(value: SecretStr) -> SecretStr:
    text = value.get_secret_value().strip()
    if not re.fullmatch(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?", text):
        raise ValueError("must be printable ASCII on one line")
    return SecretStr(text)


Secret = Annotated[SecretStr, AfterValidator(_header_value)]


def _header_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", name):
        raise ValueError("must be the name of an HTTP header")
    if name.lower() in ("content-length", "transfer-encoding", "connection", "host"):
        raise ValueError("is set by the gateway: remove it")
    return name


HeaderName: TypeAlias = Annotated[str, AfterValidator(_header_name)]


def http_url(value: str) -> str:
    if not re.fullmatch(r"https?://[^\s/?#]+[^\s?#]*", value):
        raise ValueError("must be an http or https URL without a query, such as http://127.0.0.1:8001/v1")
    if "@" in value.split("/")[2]:
        raise ValueError("must not contain a user or password: put them in api_key or headers")
    try:
        url = httpx.URL(value)
        url.raw_host.decode("ascii").encode("idna")  # as the name look-up does
    except (httpx.InvalidURL, UnicodeError):
        raise ValueError("must name a valid host") from None
    if url.port is not None and not 0 < url.port < 65536:
        raise ValueError("must name a port from 1 to 65535")
    return value.rstrip("/")


def exact_url(value: str) -> str:
    """Check a URL, and return it as it is: a slash at its end counts, and some services take a key in its query."""
    http_url(value.partition("?")[0])
    return value


NO_PROXY = "none"
"""The value of `proxy` with which the environment's proxies are not used."""


def _proxy_url(value: SecretStr) -> SecretStr:
    if value.get_secret_value() != NO_PROXY:
        parse_proxy(value.get_secret_value())
    return value


ProxyUrl: TypeAlias = Annotated[SecretStr, AfterValidator(_proxy_url)]
