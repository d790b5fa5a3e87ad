"""Every URL of a cache, and what is said of one that is none."""

import pytest
from app.redis.urls import CacheUrl, MemoryUrl, NullUrl, RedisUrl, SqliteUrl, parse_cache_url

from tests.each_case import each_case


@each_case(
    ("url", "address"),
    [
        ("memory:", MemoryUrl()),
        ("memory://", MemoryUrl()),
        ("null:", NullUrl()),
        ("sqlite:///cache.db", SqliteUrl("cache.db")),
        ("sqlite:////data/my%20cache.db", SqliteUrl("/data/my cache.db")),
        ("redis://h", RedisUrl(hosts=(("h", 6379),))),
        ("redis://h:1/2", RedisUrl(hosts=(("h", 1),), db=2)),
        ("redis://[::1]:1", RedisUrl(hosts=(("::1", 1),))),
        ("redis://u:p%40ss@h", RedisUrl(hosts=(("h", 6379),), username="u", password="p@ss")),
        ("redis://:p@h", RedisUrl(hosts=(("h", 6379),), password="p")),
        ("rediss://h", RedisUrl(hosts=(("h", 6379),), tls=True)),
        (
            "rediss://h?ssl_ca_certs=/ca.pem",
            RedisUrl(hosts=(("h", 6379),), tls=True, tls_options=(("ssl_ca_certs", "/ca.pem"),)),
        ),
        ("redis+unix:///run/r.sock?db=3", RedisUrl("unix", socket="/run/r.sock", db=3)),
        ("redis+cluster://a,b:1", RedisUrl("cluster", (("a", 6379), ("b", 1)))),
        ("rediss+cluster://a/0", RedisUrl("cluster", (("a", 6379),), tls=True)),
        ("redis+sentinel://a,b:1/main", RedisUrl("sentinel", (("a", 26379), ("b", 1)), service="main")),
        ("redis+sentinel://:p@a/main/4", RedisUrl("sentinel", (("a", 26379),), service="main", db=4, password="p")),
    ],
)
def test_an_address_is_read(url: str, address: CacheUrl) -> None:
    assert parse_cache_url(url) == address


@each_case(
    ("url", "words"),
    [
        ("", "must be a URL"),
        ("cache.db", "must be a URL"),
        ("redis://a b", "must be a URL"),
        ("mysql://h/d", "must begin with"),
        ("redis+http://h", "must begin with"),
        ("memory:x", "must be just memory:"),
        ("sqlite:cache.db", "must name a file"),
        ("sqlite://cache.db", "must name a file"),
        ("sqlite:///", "must name a file"),
        ("sqlite:////data/", "must name a file"),
        ("sqlite:///a.db?mode=ro", "must name a file"),
        ("redis://", "must name hosts"),
        ("redis://h:0", "must name hosts"),
        ("redis://h:99999", "must name hosts"),
        ("redis://h:port", "must name hosts"),
        ("redis://a,b", "must name one server"),
        ("redis://h/0/1", "must name one server"),
        ("redis://h/main", "must name a database by its number"),
        ("redis://h?ssl_ca_certs=/ca.pem", "must not have the option ssl_ca_certs without TLS"),
        ("rediss://h?timeout=3", "must not have the option timeout"),
        ("redis+cluster://a/1", "must not name a database"),
        ("redis+sentinel://a", "must name the master"),
        ("redis+sentinel://a/m/0/1", "must name the master"),
        ("redis+unix://h/run/r.sock", "must name a socket"),
        ("rediss+unix:///run/r.sock", "must name a socket"),
        ("redis+unix:///", "must name a socket"),
    ],
)
def test_a_wrong_address_is_refused_in_words(url: str, words: str) -> None:
    with pytest.raises(ValueError, match=f"^{words}"):
        parse_cache_url(url)


@pytest.mark.parametrize("url", ["redis://u:s3cret@h:x", "rediss://u:s3cret@h?x=1", "sqlite://u:s3cret@h", "x:s3cret"])
def test_no_words_repeat_a_password(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        parse_cache_url(url)
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(parse_cache_url("redis://u:s3cret@h"))
