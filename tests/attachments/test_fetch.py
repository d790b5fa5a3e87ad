"""A URL that a caller names is read only where everybody may read, and only so long and so much."""

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx
import pytest
from app.attachments.fetch import FetchedFile, Fetcher
from app.errors import MediaRefused, MediaUnavailable, ParleyError, TooLarge

from tests.default_limits import fetch_limits
from tests.each_case import each_case
from tests.web_server import Site, drip, endless, reply, waiting

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Names:
    """A name server: what it knows, and how often it was asked."""

    def __init__(self, **known: Sequence[str]) -> None:
        self.known = {"media.test": ["127.0.0.1"], "localhost": ["::1", "127.0.0.1"], **known}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host not in self.known:
            raise OSError("no such name")
        return self.known[host]


class Nowhere(httpx.AsyncBaseTransport):
    """Connects to nothing, and keeps what it was asked to connect to."""

    def __init__(self, *answers: httpx.Response) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        if not self._answers:
            raise httpx.ConnectError("nowhere")
        return self._answers.pop(0)


def png() -> httpx.Response:
    return httpx.Response(200, stream=httpx.ByteStream(b"x"), headers={"content-type": "image/png"})


def moved(location: str, status: int = 302) -> bytes:
    return reply(b"", "", status, location=location)


@asynccontextmanager
async def reading(names: Names | None = None, **limits: object) -> AsyncIterator[Fetcher]:
    chosen = {"allow": ("media.test",), "max_seconds": 5.0, **limits}
    async with Fetcher(fetch_limits(**chosen), names or Names()) as fetcher:
        yield fetcher


async def refused(fetcher: Fetcher, url: str) -> ParleyError:
    with pytest.raises(ParleyError) as caught:
        await fetcher.fetch(url, kinds=("image",), param="messages[0].content[0].image")
    assert caught.value.param == "messages[0].content[0].image"
    return caught.value


PRIVATE = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.0.9",
    "168.63.129.16", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1",
    "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.250",
    "240.0.0.1", "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1", "100::1", "2001::1",
    "2001:db8::1", "2002:7f00:1::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1",
]  # fmt: skip
"""Addresses that are not everybody's: this machine, its networks, clouds' metadata, and IPv6 that wraps them."""

HOSTILE = [
    "http://2130706433/", "http://017700000001/", "http://0177.0.0.1/", "http://0x7f.0.0.1/", "http://0x7f000001/",
    "http://127.1/", "http://127.0.1/", "http://0/", "http://127.0.0.1./", "http://127.0.0.01/", "http://3232235777/",
    "http://0251.0376.0251.0376/", "http://0xA9FEA9FE/", "http://1.2.3.4.5/", "http://256.0.0.1/", "http://8.8.8.08/",
    "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://[fe80::1%25eth0]/",
    "http://[0:0:0:0:0:ffff:169.254.169.254]/", "http://[::1/", "http://[]/", "http://[v1.x]/",
    "http://user@media.test/", "http://user:password@media.test/", "http://public.test@127.0.0.1/",
    "http://127.0.0.1@public.test/", "http://public.test%40127.0.0.1/", "http://public.test\\@127.0.0.1/",
    "http://public.test#@127.0.0.1/@x", "http://127.0.0.1\\.public.test/", "http:\\\\127.0.0.1/", "http:/127.0.0.1/",
    "http:127.0.0.1/", "http:///127.0.0.1/", "//127.0.0.1/", "http://", "http://:80/", "http://.test/", "http://a..b/",
    "http://localhost/", "http://LOCALHOST/", "http://localhost./", "http://x.localhost/", "http://127。0。0。1/",
    "http://①②⑦.⓪.⓪.①/", "http://１２７.0.0.1/", "http://loc%61lhost/", "http://%31%32%37.0.0.1/",
    "http://public.test\t/", " http://public.test/", "http://public.test/\r\nhost: x", "http://public.test /",
    "http://public.test:22/", "http://public.test:25/", "http://public.test:0/", "http://public.test:99999/",
    "http://public.test:x/", "https://public.test:6/", "http://-a.test/", "http://" + "a" * 64 + ".test/",
    "file:///etc/passwd", "FILE:///etc/passwd", "ftp://public.test/x", "gopher://public.test:70/_x", "data:,x",
    "dict://public.test/", "ldap://public.test/", "jar:http://public.test!/", "javascript:x", "/etc/passwd", "",
    "http://[::127.0.0.1]/", "http://[2002:7f00:1::]/", "http://[64:ff9b::7f00:1]/", "http://[2001:0:7f00:1::]/",
    "http://[::ffff:a9fe:a9fe]:80/", "http://[::]/", "http://[::1%251]/", "http://127.127/", "http://0x7f.1/",
    "http://025177524776/", "http://2852039166/", "http://00000000177.0.0.1/", "http://127.0.0.1%00.public.test/",
    "http://public.test%2f@127.0.0.1/", "http://127.0.0.1:80@public.test/", "http://a@b@127.0.0.1/", "http://@127.0.0.1/",
    "http://127.0.0.1;public.test/", "http://public.test,127.0.0.1/", "http://127.0.0.1\u200b/", "http:/\\127.0.0.1/",
    "http://ⓛocalhost/", "http://ｌｏｃａｌｈｏｓｔ/", "http://local\u00adhost/", "http://xn--/", "http://0000::1/",
    "http://public.test:80:80/", "http://public.test:-1/", "http://public.test:+80/", "http://public.test:８０/",
    "smb://127.0.0.1/x", "sftp://public.test/", "ws://public.test/", "view-source:http://127.0.0.1/", "about:blank",
    "unix:///var/run/docker.sock", "http+unix://x/", "http://public.test/" + "a" * 9000,
]  # fmt: skip
"""URLs that are refused for how they are written, or for the address in them."""


NAMED = {
    "metadata.google.internal": "169.254.169.254",
    "metadata": "169.254.169.254",
    "instance-data": "169.254.169.254",
    "169.254.169.254.nip.io": "169.254.169.254",
    "localhost.localdomain": "127.0.0.1",
    "kubernetes.default.svc": "10.96.0.1",
    "host.docker.internal": "192.168.65.2",
    "rotating.test.": "fd00:ec2::254",
}
"""Names that lead inside, in clouds, clusters and containers."""


@pytest.mark.parametrize("name", NAMED)
async def test_a_name_that_leads_inside_is_refused(name: str) -> None:
    nowhere = Nowhere()
    async with Fetcher(fetch_limits(), Names(**{name.removesuffix("."): [NAMED[name]]}), nowhere) as fetcher:
        assert type(await refused(fetcher, f"http://{name}/computeMetadata/v1/")) is MediaRefused
    assert nowhere.requests == []


@each_case("address", PRIVATE)
async def test_a_name_on_an_address_that_is_not_public_is_refused_and_nothing_is_connected(address: str) -> None:
    nowhere = Nowhere()
    async with Fetcher(fetch_limits(), Names(**{"evil.test": [address]}), nowhere) as fetcher:
        assert type(await refused(fetcher, "http://evil.test/x.png")) is MediaRefused
    assert nowhere.requests == []


@each_case("address", PRIVATE)
async def test_an_address_that_is_not_public_is_refused_as_it_stands(address: str) -> None:
    nowhere, names = Nowhere(), Names()
    async with Fetcher(fetch_limits(), names, nowhere) as fetcher:
        assert (
            type(await refused(fetcher, f"http://[{address}]/" if ":" in address else f"http://{address}/"))
            is MediaRefused
        )
    assert nowhere.requests == [] and names.asked == []


@each_case("url", HOSTILE)
async def test_a_hostile_url_is_refused_and_nothing_is_connected(url: str) -> None:
    nowhere = Nowhere()
    names = Names(**{"public.test": ["93.184.216.34"]})
    async with Fetcher(fetch_limits(), names, nowhere) as fetcher:
        if "#@" in url:  # what follows a fragment's mark is no host: the host is public
            await refused(fetcher, url)
            assert [request.url.host for request in nowhere.requests] == ["93.184.216.34"]
            return
        assert type(await refused(fetcher, url)) is MediaRefused
    assert nowhere.requests == []


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "1.1.1.1", "2606:2800:220:1:248:1893:25c8:1946", "64:ff9b::101:101"]
)
async def test_a_public_address_is_connected_to_with_the_name_in_host_and_handshake(address: str) -> None:
    nowhere = Nowhere(png())
    async with Fetcher(fetch_limits(), Names(**{"public.test": [address]}), nowhere) as fetcher:
        fetched = await fetcher.fetch("https://Public.TEST:8443/a?b#c", kinds=("image",))
    [request] = nowhere.requests
    assert (request.url.host, request.url.port, request.url.raw_path) == (address, 8443, b"/a?b")
    assert request.headers["host"] == "public.test:8443"
    assert request.extensions["sni_hostname"] == "public.test"
    assert fetched == FetchedFile(b"x", "image/png", "https://public.test:8443/a?b")


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    nowhere = Nowhere()
    async with Fetcher(fetch_limits(), Names(**{"mixed.test": ["93.184.216.34", "10.0.0.1"]}), nowhere) as fetcher:
        await refused(fetcher, "http://mixed.test/")
    assert nowhere.requests == []


async def test_a_name_is_looked_up_once_so_that_a_second_answer_is_never_used() -> None:
    class Rebinding(Names):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            await super().__call__(host, port)
            return ["93.184.216.34"] if len(self.asked) == 1 else ["127.0.0.1"]

    nowhere, names = Nowhere(png()), Rebinding()
    names.known["rebind.test"] = []
    async with Fetcher(fetch_limits(), names, nowhere) as fetcher:
        await fetcher.fetch("http://rebind.test/", kinds=("image",))
        assert [request.url.host for request in nowhere.requests] == ["93.184.216.34"] and len(names.asked) == 1
        await refused(fetcher, "http://rebind.test/")
    assert len(nowhere.requests) == 1


async def test_a_redirect_to_the_same_name_is_looked_up_and_judged_again() -> None:
    class Rebinding(Names):
        async def __call__(self, host: str, port: int) -> Sequence[str]:
            self.asked.append(host)
            return ["93.184.216.34"] if len(self.asked) == 1 else ["169.254.169.254"]

    nowhere = Nowhere(httpx.Response(302, headers={"location": "/latest/meta-data/"}))
    async with Fetcher(fetch_limits(), Rebinding(), nowhere) as fetcher:
        assert type(await refused(fetcher, "http://rebind.test/")) is MediaRefused
    assert len(nowhere.requests) == 1


@each_case(
    "location",
    [
        "http://evil.test:{port}/secret",
        "http://127.0.0.1:{port}/secret",
        "//127.0.0.1:{port}/secret",
        "http://2130706433:{port}/secret",
        "http://[::ffff:127.0.0.1]:{port}/secret",
        "http://user:password@media.test:{port}/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://localhost:{port}/secret",
        "file:///etc/passwd",
        "ftp://media.test/secret",
        "gopher://media.test:{port}/secret",
        "javascript:secret",
        "data:image/png;base64,AAAA",
        "\\\\127.0.0.1\\secret",
        "http://[broken/secret",
        "/again",
        "",
    ],
)
@each_case("status", [301, 302, 303, 307, 308])
async def test_a_redirect_to_what_would_be_refused_is_refused(location: str, status: int) -> None:
    async with Site() as site, reading(Names(**{"evil.test": ["127.0.0.1"]})) as fetcher:
        site.answer("/", moved("/again"))
        site.answer("/again", moved(location.format(port=site.port), status))
        assert type(await refused(fetcher, site.url("/"))) is MediaRefused
        assert not [head for head in site.requests if "secret" in head.split()[1]]


async def test_redirects_are_followed_as_far_as_the_limit() -> None:
    async with Site() as site, reading(max_redirects=3) as fetcher:
        for at in range(4):
            site.answer(f"/{at}", moved(f"/{at + 1}") if at < 3 else reply(b"end"))
        fetched = await fetcher.fetch(site.url("/0"), kinds=("image",))
        assert (fetched.data, fetched.url) == (b"end", site.url("/3"))
        site.answer("/3", moved("/4"))
        assert "more than 3 times" in (await refused(fetcher, site.url("/0"))).message


async def test_what_is_sent_says_nothing_of_the_caller_and_takes_no_cookie_along() -> None:
    async with Site() as site, reading() as fetcher:
        site.answer("/", reply(b"", "", 302, location="/next", set_cookie="a=b"))
        site.answer("/next", reply())
        await fetcher.fetch(site.url("/"), kinds=("image",))
        names = {line.split(":")[0].lower() for line in site.requests[1].splitlines()[1:] if line}
    assert names == {"host", "accept", "accept-encoding", "user-agent", "connection"}


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    async with Site({"/": reply()}) as site, reading() as fetcher:
        assert (await fetcher.fetch(site.url("/"), kinds=("image",))).data == b"bytes"


@each_case(
    ("allow", "host", "addresses", "reached"),
    [
        (("files.test",), "files.test", ["10.0.0.1"], True),
        (("files.test",), "other.test", ["10.0.0.1"], False),
        (("files.test",), "a.files.test", ["10.0.0.1"], False),
        (("*.files.test",), "a.files.test", ["10.0.0.1"], True),
        (("*.files.test",), "badfiles.test", ["10.0.0.1"], False),
        (("10.0.0.0/24",), "any.test", ["10.0.0.1"], True),
        (("10.0.0.0/24",), "any.test", ["10.0.1.1"], False),
        (("10.0.0.0/24",), "any.test", ["::ffff:10.0.0.1"], True),
        (("fd00::/64",), "any.test", ["fd00::1"], True),
        (("files.test",), "files.test", ["169.254.169.254"], False),
        (("files.test",), "files.test", ["fd00:ec2::254"], False),
        (("files.test", "169.254.0.0/16"), "files.test", ["169.254.169.254"], True),
    ],
)
async def test_an_allow_list_opens_hosts_and_networks_but_no_metadata_by_name(
    allow: tuple[str, ...], host: str, addresses: list[str], reached: bool
) -> None:
    nowhere = Nowhere()
    async with Fetcher(fetch_limits(allow=allow), Names(**{host: addresses}), nowhere) as fetcher:
        await refused(fetcher, f"http://{host}/")
    assert bool(nowhere.requests) is reached


def test_an_allow_list_with_a_mistake_is_refused_at_the_start() -> None:
    with pytest.raises(ValueError, match="10.0.0.1/8"):
        Fetcher(fetch_limits(allow=("10.0.0.1/8",)), Names(), Nowhere())


async def test_the_next_address_is_tried_where_the_first_gives_no_connection() -> None:
    nowhere = Nowhere()
    async with Fetcher(fetch_limits(), Names(**{"two.test": ["93.184.216.34", "1.1.1.1"]}), nowhere) as fetcher:
        error = await refused(fetcher, "http://two.test/")
    assert [request.url.host for request in nowhere.requests] == ["93.184.216.34", "1.1.1.1"]
    assert isinstance(error, MediaUnavailable) and "1.1.1.1" not in error.message


@pytest.mark.parametrize(
    ("status", "error"), [(404, MediaRefused), (204, MediaRefused), (503, MediaUnavailable), (429, MediaUnavailable)]
)
async def test_a_status_says_whether_the_same_may_work_later(status: int, error: type[ParleyError]) -> None:
    async with Site({"/": reply(status=status)}) as site, reading() as fetcher:
        found = await refused(fetcher, site.url("/"))
    assert type(found) is error and found.retryable is (error is MediaUnavailable) and found.status == 422


@pytest.mark.parametrize(
    ("kind", "declared", "taken"),
    [
        ("image", "image/png", True),
        ("image", "IMAGE/PNG; x=y", True),
        ("image", "application/octet-stream", True),
        ("image", "", True),
        ("image", "text/html", False),
        ("image", "application/json", False),
        ("audio", "video/mp4", True),
        ("video", "image/png", False),
        ("file", "text/html; charset=gbk", True),
    ],
)
async def test_a_type_that_is_declared_otherwise_is_refused(kind: str, declared: str, taken: bool) -> None:
    async with Site({"/": reply(kind=declared)}) as site, reading() as fetcher:
        if taken:
            fetched = await fetcher.fetch(site.url("/"), kinds=(kind,))  # type: ignore[arg-type]  # of the table
            assert fetched.media_type == declared.partition(";")[0].lower()
            assert fetched.charset == ("gbk" if "gbk" in declared else None)
        else:
            with pytest.raises(MediaRefused, match="declared"):
                await fetcher.fetch(site.url("/"), kinds=(kind,))  # type: ignore[arg-type]  # of the table


async def test_an_endless_body_is_left_at_the_limit() -> None:
    async with Site({"/": endless}) as site, reading(max_bytes=300_000) as fetcher:
        assert type(await refused(fetcher, site.url("/"))) is TooLarge
        await asyncio.wait_for(site.gone.wait(), 5)


async def test_a_body_that_is_declared_too_long_is_not_read() -> None:
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\ncontent-length: 99999999999\r\n\r\n"
    async with Site({"/": answer}) as site, reading() as fetcher:
        assert type(await refused(fetcher, site.url("/"))) is TooLarge


async def test_a_compressed_body_is_inflated_as_far_as_the_limit() -> None:
    bomb, small = gzip.compress(bytes(50_000_000)), gzip.compress(b"small")
    async with Site() as site, reading(max_bytes=1_000_000) as fetcher:
        site.answer("/bomb", reply(bomb, content_encoding="gzip"))
        site.answer("/small", reply(small, content_encoding="gzip"))
        site.answer("/brotli", reply(b"x", content_encoding="br"))
        site.answer("/broken", reply(b"x", content_encoding="gzip"))
        site.answer("/cut", reply(gzip.compress(b"cut" * 100)[:-9], content_encoding="gzip"))
        site.answer("/members", reply(small + gzip.compress(b" and more"), content_encoding="gzip"))
        site.answer("/exact", reply(gzip.compress(bytes(1_000_000)), content_encoding="gzip"))
        assert type(await refused(fetcher, site.url("/bomb"))) is TooLarge
        assert (await fetcher.fetch(site.url("/small"), kinds=("image",))).data == b"small"
        assert type(await refused(fetcher, site.url("/brotli"))) is MediaRefused
        assert type(await refused(fetcher, site.url("/broken"))) is MediaRefused
        assert type(await refused(fetcher, site.url("/cut"))) is MediaRefused
        assert (await fetcher.fetch(site.url("/members"), kinds=("image",))).data == b"small and more"
        assert len((await fetcher.fetch(site.url("/exact"), kinds=("image",))).data) == 1_000_000


@pytest.mark.parametrize(
    "sent", [(), (b"HTTP/1.1 200",), (b"HTTP/1.1 200 OK\r\ncontent-type: image/png\r\n\r\n", b"x")]
)
async def test_a_slow_server_costs_the_time_limit_and_delays_no_other_request(sent: tuple[bytes, ...]) -> None:
    async with Site({"/slow": waiting(*sent), "/quick": reply()}) as site, reading(max_seconds=0.3) as fetcher:
        slow = asyncio.create_task(refused(fetcher, site.url("/slow")))
        for _ in range(5):
            assert (await fetcher.fetch(site.url("/quick"), kinds=("image",))).data == b"bytes"
        assert not slow.done()
        error = await slow
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if "_serve" in repr(task):
                task.cancel()
    assert isinstance(error, MediaUnavailable) and "0.3 s" in error.message


async def test_what_drips_for_ever_is_left_at_the_time_limit() -> None:
    async with Site({"/": drip}) as site, reading(max_seconds=0.3) as fetcher:
        assert isinstance(await refused(fetcher, site.url("/")), MediaUnavailable)
        await asyncio.wait_for(site.gone.wait(), 5)


async def test_a_caller_who_disconnects_closes_the_connection() -> None:
    asked = asyncio.Event()

    async def answer(writer: asyncio.StreamWriter) -> None:
        asked.set()
        await endless(writer)

    async with Site({"/": answer}) as site, reading(max_bytes=1 << 40) as fetcher:
        task = asyncio.create_task(fetcher.fetch(site.url("/"), kinds=("image",)))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(site.gone.wait(), 5)


async def test_no_more_are_read_at_once_than_the_limit_allows() -> None:
    arrived, go = asyncio.Semaphore(0), asyncio.Event()
    inside = 0

    async def answer(writer: asyncio.StreamWriter) -> None:
        nonlocal inside
        inside += 1
        arrived.release()
        await go.wait()
        writer.write(reply())
        await writer.drain()

    async with Site({"/": answer}) as site, reading(max_concurrent=2) as fetcher:
        tasks = [asyncio.create_task(fetcher.fetch(site.url("/"), kinds=("image",))) for _ in range(5)]
        await arrived.acquire()
        await arrived.acquire()
        assert inside == 2
        go.set()
        assert len([await task for task in tasks]) == 5


@pytest.mark.parametrize("answer", [b"garbage\r\n\r\n", b"", b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nx"])
async def test_a_server_that_breaks_off_or_is_not_http_is_unavailable(answer: bytes) -> None:
    async with Site({"/": answer}) as site, reading() as fetcher:
        assert isinstance(await refused(fetcher, site.url("/")), MediaUnavailable)


async def test_an_unknown_host_name_is_unavailable() -> None:
    async with reading() as fetcher:
        assert (
            await refused(fetcher, "http://unknown.test/")
        ).message == "could not be fetched: its host name was not found"


async def test_the_machines_own_resolver_finds_loopback_and_it_is_refused() -> None:
    async with Fetcher(fetch_limits(), tls=ssl.create_default_context()) as fetcher:
        assert type(await refused(fetcher, "http://localhost:1/")) is MediaRefused
    async with Fetcher(fetch_limits(allow=("localhost",))) as fetcher:
        assert type(await refused(fetcher, "http://localhost:1/")) is MediaUnavailable
