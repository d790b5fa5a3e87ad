"""Fetch and convert the media of one request.

One request fetches a few URLs at a time and converts its documents one by one, so that a request with a hundred files
does not delay others. Cancelling `load` stops all of it.
"""

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from app.attachments.documents.protocol import TextResult, UnreadableFile
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import FetchedFile, Fetcher
from app.chat import datauri
from app.chat.attachments import Attachment, FileText, Inlined, Section
from app.chat.media_types import HEAD_BYTES, correct_media_type
from app.errors import InvalidInput, MediaRefused, ParleyError, TooLarge, Violation
from app.steps.media import MediaRequest


class AttachmentLimits(Struct, frozen=True):
    max_count: int
    """How many media of one request may be loaded."""
    max_total_bytes: int
    """How many bytes may be fetched for one request."""
    fetched_at_once: int = 4


class AttachmentLoader:
    def __init__(self, fetcher: Fetcher, workers: DocumentWorkers, limits: AttachmentLimits) -> None:
        self._fetcher = fetcher
        self._workers = workers
        self._limits = limits

    def check_url_text(self, urls: Sequence[tuple[str, str]]) -> list[Violation]:
        """Return the violations of URLs that are passed on to the model server, without any look-up.

        `urls` holds pairs of a URL and its path in the request.
        """
        violations = []
        for url, path in urls:
            try:
                self._fetcher.check_url_text(url)
            except MediaRefused as error:
                violations.append(Violation(path, f"{error.message}, so it is not passed on to the model server"))
        return violations

    async def load(
        self, wanted: Sequence[MediaRequest], reserve: Callable[[int], None] = lambda size: None
    ) -> dict[MediaRequest, Attachment]:
        """Load all media of one request.

        `reserve` is called with the size of each fetched file and may raise. Raises TooLarge above `max_count`,
        InvalidInput if several media are refused, else the single error that occurred.
        """
        to_load = [item for item in wanted if item.purpose != "resolve"]
        if len(to_load) > self._limits.max_count:
            text = f"the request has {len(to_load)} media to load; at most {self._limits.max_count} are allowed"
            raise TooLarge(text, to_load[self._limits.max_count].path)
        if not wanted:
            return {}
        loader = _RequestLoader(self._fetcher, self._workers, self._limits, reserve)
        results = await asyncio.gather(*(loader.load(item) for item in wanted), return_exceptions=True)
        _raise_first([result for result in results if isinstance(result, BaseException)])
        return {
            item: result for item, result in zip(wanted, results, strict=True) if not isinstance(result, BaseException)
        }


def _raise_first(errors: list[BaseException]) -> None:
    """Raise an error that is not a refusal first: the request may succeed later, or it shows a bug."""
    others = [error for error in errors if not isinstance(error, MediaRefused)]
    if others:
        raise others[0]
    refused = [error for error in errors if isinstance(error, MediaRefused)]
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise InvalidInput([Violation(error.param or "", error.message) for error in refused])


class _RequestLoader:
    """Loads the media of one request."""

    def __init__(
        self, fetcher: Fetcher, workers: DocumentWorkers, limits: AttachmentLimits, reserve: Callable[[int], None]
    ) -> None:
        self._fetcher = fetcher
        self._workers = workers
        self._reserve = reserve
        self._max_total_bytes = limits.max_total_bytes
        self._total_bytes = 0
        self._fetching = asyncio.Semaphore(limits.fetched_at_once)
        self._reading = asyncio.Semaphore(1)
        self._fetched: dict[tuple[str, str], asyncio.Future[FetchedFile]] = {}

    async def load(self, item: MediaRequest) -> Attachment:
        try:
            if item.purpose == "resolve":
                await self._fetcher.check_addresses(item.url, param=item.path)
                return Inlined(item.url)
            if item.purpose == "picture":
                return await self._load_picture(item)
            if item.purpose == "text":
                return await self._load_text(item)
            return await self._load_inline(item)
        except (UnreadableFile, ValueError) as error:
            raise MediaRefused(str(error), item.path) from None
        except ParleyError as error:
            error.param = error.param or item.path
            raise

    async def _load_picture(self, item: MediaRequest) -> Inlined:
        data, declared, _ = await self._load_data(item)
        limits = item.limits
        async with self._reading:
            image = await self._workers.scale_picture(data, limits.max_pixels, limits.max_short_side, limits.max_bytes)
        if image.data is not None:
            return Inlined(datauri.encode(image.media_type, image.data))
        if isinstance(data, bytes):
            return Inlined(datauri.encode(image.media_type, data))
        return Inlined(item.url if declared == image.media_type else f"data:{image.media_type};base64,{data}")

    async def _load_text(self, item: MediaRequest) -> FileText:
        data, declared, charset = await self._load_data(item)
        async with self._reading:
            text = await self._workers.extract_text(data, item.name, declared, charset)
        return _file_text(text)

    async def _load_inline(self, item: MediaRequest) -> Inlined:
        data, declared, _ = await self._load_data(item)
        size = len(data) if isinstance(data, bytes) else len(data) * 3 // 4
        if item.limits.max_bytes is not None and size > item.limits.max_bytes:
            text = f"has {size} bytes; this model accepts at most {item.limits.max_bytes}"
            raise TooLarge(text, item.path)
        head = data[:HEAD_BYTES] if isinstance(data, bytes) else datauri.decode_head(data, HEAD_BYTES)
        media_type = correct_media_type(head, declared)
        uri = datauri.encode(media_type, data) if isinstance(data, bytes) else f"data:{media_type};base64,{data}"
        form = datauri.AUDIO_FORMATS.get(media_type)
        if item.purpose == "inline" or form is None:
            return Inlined(uri)
        return Inlined(uri[uri.index(",") + 1 :], form)

    async def _load_data(self, item: MediaRequest) -> tuple[bytes | str, str, str | None]:
        """Return (the bytes, or the base64 text as it was sent; the declared media type; the charset)."""
        if datauri.is_data(item.url):
            head = datauri.parse(item.url)
            data = item.url[head.start :] if head.base64 else datauri.decode(item.url)
            return data, head.media_type, head.charset
        fetched = await self._fetch_once(item)
        return fetched.data, fetched.media_type, fetched.charset

    async def _fetch_once(self, item: MediaRequest) -> FetchedFile:
        """Fetch a URL, or wait for the fetch of the same URL that is in progress."""
        key = (item.url, item.media)
        future = self._fetched.get(key)
        if future is not None:
            return await asyncio.shield(future)
        future = self._fetched[key] = asyncio.get_running_loop().create_future()
        try:
            fetched = await self._fetch(item)
        except BaseException as error:
            future.set_exception(error if isinstance(error, ParleyError) else MediaRefused("was not fetched"))
            future.exception()
            raise
        future.set_result(fetched)
        return fetched

    async def _fetch(self, item: MediaRequest) -> FetchedFile:
        async with self._fetching:
            fetched = await self._fetcher.fetch(item.url, kinds=(item.media,), param=item.path)
        self._total_bytes += len(fetched.data)
        if self._total_bytes > self._max_total_bytes:
            text = f"the media of this request have more than {self._max_total_bytes} bytes together"
            raise TooLarge(text, item.path)
        self._reserve(len(fetched.data))
        return fetched


def _file_text(result: TextResult) -> FileText:
    sections = tuple(Section(text, number, name) for number, name, text in result.sections)
    return FileText(sections, result.unit, result.left_out, result.cut, result.scanned)
