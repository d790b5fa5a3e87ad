"""Proxies that the environment names."""

import pytest
from app.upstream.http.options import Proxy, find_proxy, parse_proxy

HTTPS = {"HTTPS_PROXY": "http://p:3128"}


@pytest.mark.parametrize(
    ("environ", "url", "expected"),
    [
        (HTTPS, "https://api.example.com/v1", "http://p:3128"),
        (HTTPS, "http://api.example.com/v1", None),
        ({"HTTP_PROXY": "p:1"}, "http://api.example.com/v1", "p:1"),
        ({"http_proxy": "p:1", "HTTP_PROXY": "q:1"}, "http://api.example.com/v1", "p:1"),
        ({"ALL_PROXY": "p:1"}, "https://api.example.com/v1", "p:1"),
        ({"HTTPS_PROXY": ""}, "https://api.example.com/v1", None),
        (HTTPS, "https://localhost:8000/v1", None),
        (HTTPS, "https://127.0.0.5/v1", None),
        (HTTPS, "https://[::1]/v1", None),
        (HTTPS | {"NO_PROXY": "*"}, "https://api.example.com/v1", None),
        (HTTPS | {"NO_PROXY": "example.com"}, "https://api.example.com/v1", None),
        (HTTPS | {"no_proxy": "a, .example.com"}, "https://api.example.com/v1", None),
        (HTTPS | {"NO_PROXY": "*.example.com"}, "https://api.example.com/v1", None),
        (HTTPS | {"NO_PROXY": "ample.com"}, "https://api.example.com/v1", "http://p:3128"),
        (HTTPS | {"NO_PROXY": "10.0.0.0/8"}, "https://10.2.3.4/v1", None),
        (HTTPS | {"NO_PROXY": "10.0.0.0/8"}, "https://11.2.3.4/v1", "http://p:3128"),
        (HTTPS | {"NO_PROXY": "fd00::/8"}, "https://[fd00::1]/v1", None),
        (HTTPS | {"NO_PROXY": "[fd00::1]"}, "https://[fd00::1]/v1", None),
        (HTTPS | {"NO_PROXY": "api.example.com:8443"}, "https://api.example.com:8443/v1", None),
        (HTTPS | {"NO_PROXY": "api.example.com:8443"}, "https://api.example.com/v1", "http://p:3128"),
        (HTTPS | {"NO_PROXY": "example.com."}, "https://api.example.com/v1", None),
        (HTTPS | {"NO_PROXY": "API.Example.com"}, "https://api.example.com./v1", None),
    ],
)
def test_find_proxy(environ: dict[str, str], url: str, expected: str | None) -> None:
    assert find_proxy(environ, url) == expected


def test_parse_proxy() -> None:
    assert parse_proxy("proxy:3128") == Proxy("http", "proxy", 3128, None)
    assert parse_proxy("https://u@proxy") == Proxy("https", "proxy", 443, b"Basic dTo=")


@pytest.mark.parametrize("text", ["socks5://proxy:1080", "http://", "http://proxy/path", "http://pass word@x:y"])
def test_what_is_no_proxy(text: str) -> None:
    with pytest.raises(ValueError, match="must be") as raised:
        parse_proxy(text)
    assert "pass word" not in str(raised.value)
