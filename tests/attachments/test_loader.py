"""What is wanted of a request becomes what its model takes: each URL is read once, refusals are reported together."""

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import httpx
import pytest
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import Fetcher
from app.attachments.loader import AttachmentLoader
from app.chat.attachments import FileText, Inlined, Section, Unreadable
from app.chat.messages import MediaKind
from app.errors import Busy, InvalidInput, MediaUnavailable, ParleyError, TooLarge
from app.steps.media import ImageLimits, MediaRequest

from tests.attachments.documents import sample_documents
from tests.default_limits import attachment_limits, document_limits, fetch_limits

pytestmark = pytest.mark.anyio

PNG = sample_documents.picture(40, 30)
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt " + bytes(40)
FILES = {
    "/a.png": ("image/png", PNG),
    "/wrong.png": ("image/jpeg", PNG),
    "/bomb.png": ("image/png", sample_documents.huge_png(50_000, 50_000)),
    "/a.wav": ("application/octet-stream", WAV),
    "/a.pdf": ("application/pdf", sample_documents.pdf("one", "two")),
    "/a.txt": ("text/plain; charset=koi8-r", "привет".encode("koi8-r")),
}


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def pool() -> AsyncIterator[DocumentWorkers]:
    async with DocumentWorkers(document_limits(workers=1)) as opened:
        yield opened


class Web(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.paths: list[str] = []
        self.inside = self.most = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.paths.append(request.url.path)
        self.inside += 1
        self.most = max(self.most, self.inside)
        await asyncio.sleep(0)
        self.inside -= 1
        if request.url.path not in FILES:
            return httpx.Response(503, stream=httpx.ByteStream(b""))
        media_type, data = FILES[request.url.path]
        return httpx.Response(200, headers={"content-type": media_type}, stream=httpx.ByteStream(data))


async def anywhere(host: str, port: int) -> Sequence[str]:
    return ["10.0.0.1" if host == "evil.test" else "93.184.216.34"]


class CountingLoader:
    def __init__(self, pool: DocumentWorkers, **limits: int) -> None:
        self.web = Web()
        fetcher = Fetcher(fetch_limits(), anywhere, self.web)
        self.loader = AttachmentLoader(fetcher, pool, attachment_limits(**limits))
        self.gather = self.loader.load


def data(media_type: str, content: bytes) -> str:
    return f"data:{media_type};base64,{base64.b64encode(content).decode()}"


def picture(url: str, path: str = "p", limits: ImageLimits | None = None) -> MediaRequest:
    return MediaRequest(url, "image", "picture", limits or ImageLimits(), path)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://h.test/a.png", data("image/png", PNG)),
        ("http://h.test/wrong.png", data("image/png", PNG)),
        (data("image/png", PNG), data("image/png", PNG)),
        (data("image/gif", PNG), data("image/png", PNG)),
        (data("", PNG), data("image/png", PNG)),
    ],
)
async def test_an_image_becomes_a_data_uri_of_its_real_type(pool: DocumentWorkers, url: str, expected: str) -> None:
    assert await CountingLoader(pool).gather([picture(url)]) == {picture(url): Inlined(expected)}


async def test_an_image_is_scaled_to_the_models_limit(pool: DocumentWorkers) -> None:
    need = picture(data("image/png", PNG), limits=ImageLimits(max_short_side=15))
    [found] = (await CountingLoader(pool).gather([need])).values()
    assert isinstance(found, Inlined) and found.url.startswith("data:image/jpeg;base64,")


@pytest.mark.parametrize(
    ("need", "expected"),
    [
        (MediaRequest("http://h.test/a.wav", "audio", "raw"), Inlined(base64.b64encode(WAV).decode(), "wav")),
        (MediaRequest("http://h.test/a.wav", "audio", "inline"), Inlined(data("audio/wav", WAV))),
        (MediaRequest(data("audio/mp3", WAV), "audio", "raw"), Inlined(base64.b64encode(WAV).decode(), "wav")),
        (MediaRequest(data("audio/x-wav", b"??"), "audio", "raw"), Inlined("Pz8=", "wav")),
        (MediaRequest(data("audio/aac", b"??"), "audio", "raw"), Inlined(data("audio/aac", b"??"))),
        (MediaRequest(data("video/x", b"??"), "video", "inline"), Inlined(data("video/x", b"??"))),
        (MediaRequest("data:text/plain,a%20b", "file", "inline"), Inlined(data("text/plain", b"a b"))),
        (MediaRequest("data:,x", "file", "inline"), Inlined(data("application/octet-stream", b"x"))),
    ],
)
async def test_sound_film_and_files_are_inlined_with_their_real_type(
    pool: DocumentWorkers, need: MediaRequest, expected: Inlined
) -> None:
    assert await CountingLoader(pool).gather([need]) == {need: expected}


async def test_files_become_text(pool: DocumentWorkers) -> None:
    needs = [MediaRequest(url, "file", "text") for url in ("http://h.test/a.pdf", "http://h.test/a.txt", "data:,a%20b")]
    found = await CountingLoader(pool).gather(needs)
    assert list(found.values()) == [
        FileText((Section("one", 1), Section("two", 2)), "page"),
        FileText((Section("привет", 1),)),
        FileText((Section("a b", 1),)),
    ]


async def test_one_url_is_fetched_once_for_all_that_want_it(pool: DocumentWorkers) -> None:
    loader, url = CountingLoader(pool), "http://h.test/a.png"
    needs = [picture(url), picture(url, limits=ImageLimits(max_short_side=9)), MediaRequest(url, "image", "inline")]
    assert len(await loader.gather(needs)) == 3
    assert loader.web.paths == ["/a.png"]
    await loader.gather(needs)
    assert loader.web.paths == ["/a.png", "/a.png"]


async def test_a_request_fetches_only_a_few_at_once(pool: DocumentWorkers) -> None:
    loader = CountingLoader(pool, fetched_at_once=2)
    await loader.gather([MediaRequest(f"http://h.test/a.wav?{at}", "audio", "raw") for at in range(9)])
    assert len(loader.web.paths) == 9 and loader.web.most <= 2


async def test_everything_that_is_refused_is_reported_at_once(pool: DocumentWorkers) -> None:
    needs = [
        picture("http://evil.test/a.png", "messages[0].content[0].image"),
        picture("http://h.test/a.png", "messages[0].content[1].image"),
        picture("http://h.test/bomb.png", "messages[0].content[2].image"),
        picture("data:image/png;base64,!!!", "messages[0].content[3].image"),
        picture("data:image/png", "messages[0].content[4].image"),
    ]
    with pytest.raises(InvalidInput) as caught:
        await CountingLoader(pool).gather(needs)
    assert [item.path for item in caught.value.violations] == [
        f"messages[0].content[{at}].image" for at in (0, 2, 3, 4)
    ]


@pytest.mark.parametrize(
    ("need", "error"),
    [
        (picture("http://h.test/bomb.png"), InvalidInput),
        (picture("http://evil.test/a.png"), InvalidInput),
        (picture("http://h.test/not-there.png"), MediaUnavailable),
        (MediaRequest("http://h.test/a.wav", "audio", "raw", ImageLimits(max_bytes=9), "p"), TooLarge),
        (MediaRequest(data("audio/wav", WAV), "audio", "inline", ImageLimits(max_bytes=9), "p"), TooLarge),
    ],
)
async def test_the_message_of_an_error_begins_with_its_place(
    pool: DocumentWorkers, need: MediaRequest, error: type[ParleyError]
) -> None:
    with pytest.raises(error) as caught:
        await CountingLoader(pool).gather([need])
    assert caught.value.param == "p"
    assert caught.value.message.startswith("p: ")


async def test_the_media_of_one_request_are_counted_and_weighed(pool: DocumentWorkers) -> None:
    needs = [MediaRequest(f"http://h.test/a.wav?{at}", "audio", "raw", path=f"p{at}") for at in range(3)]
    with pytest.raises(TooLarge) as caught:
        await CountingLoader(pool, max_count=2).gather(needs)
    assert caught.value.param == "p2"
    with pytest.raises(TooLarge, match="more than 100 bytes"):
        await CountingLoader(pool, max_total_bytes=100).gather(needs)


def old(item: MediaRequest) -> MediaRequest:
    return replace(item, required=False)


@pytest.mark.parametrize(
    ("need", "reason"),
    [
        (picture("http://h.test/bomb.png"), "has 50000 x 50000 pixels; at most 64000000 are allowed"),
        (picture("http://evil.test/a.png"), "the host is not on a public address"),
        (picture("http://h.test/not-there.png"), "its server answered with status 503"),
        (picture(data("image/png", PNG[:100])), "is a damaged image (image file is truncated)"),
        (MediaRequest("http://h.test/a.pdf", "audio", "raw"), "is declared as 'application/pdf'; expected audio"),
        (MediaRequest("http://h.test/a.wav", "audio", "raw", ImageLimits(max_bytes=9)), "accepts at most 9"),
        (MediaRequest("http://10.0.0.1/a.png", "image", "check"), "not passed on to the model server"),
        (MediaRequest("http://evil.test/a.png", "image", "resolve"), "not passed on to the model server"),
    ],
)
async def test_what_is_not_required_is_returned_as_unreadable_instead_of_raised(
    pool: DocumentWorkers, need: MediaRequest, reason: str
) -> None:
    needs = [old(need), picture("http://h.test/a.png")]
    found = await CountingLoader(pool).gather(needs)
    unreadable = found[need]
    assert isinstance(unreadable, Unreadable) and reason in unreadable.reason
    assert found[needs[1]] == Inlined(data("image/png", PNG))


async def test_an_error_of_the_gateway_is_raised_also_for_what_is_not_required() -> None:
    closed = DocumentWorkers(document_limits())
    await closed.aclose()
    with pytest.raises(Busy):
        await CountingLoader(closed).gather([old(picture(data("image/png", PNG)))])


async def test_of_too_many_media_the_required_and_the_newest_are_loaded(pool: DocumentWorkers) -> None:
    needs = [old(MediaRequest(f"http://h.test/a.wav?{at}", "audio", "raw", path=f"p{at}")) for at in range(4)]
    needs.insert(1, MediaRequest("http://h.test/a.wav?new", "audio", "raw"))
    for limits in ({"max_count": 3}, {"max_total_bytes": 3 * len(WAV), "fetched_at_once": 1}):
        found = await CountingLoader(pool, **limits).gather(needs)
        assert [isinstance(found[need], Inlined) for need in needs] == [False, True, False, True, True]


async def test_urls_that_the_server_fetches_are_checked_before_anything_is_loaded(pool: DocumentWorkers) -> None:
    loader = CountingLoader(pool).loader
    good, bad = (MediaRequest(url, "image", "check", path=url) for url in ("http://h.test/a", "http://10.0.0.1/a"))
    load, resolve = picture("http://h.test/a.png"), MediaRequest("http://h.test/a", "image", "resolve")
    assert loader.check_urls([good, load, resolve]) == [load, resolve]
    assert loader.check_urls([good, old(bad), load]) == [old(bad), load]
    with pytest.raises(InvalidInput) as caught:
        loader.check_urls([good, bad, load])
    assert [item.path for item in caught.value.violations] == ["http://10.0.0.1/a"]


async def test_nothing_wanted_is_nothing_done(pool: DocumentWorkers) -> None:
    assert await CountingLoader(pool).gather([]) == {}


@pytest.mark.parametrize("kind", ["image", "audio"])
def test_needs_are_equal_wherever_they_stand(kind: MediaKind) -> None:
    assert MediaRequest("u", kind, "inline", path="a", name="x") == MediaRequest(
        "u", kind, "inline", path="b", name="y"
    )
