"""The bytes that a request's models need, and what becomes of them.

Fetches of one request run a few at a time, its documents one by one: a request with a hundred of them takes its own
time, not that of others. When the caller leaves, all of it stops.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from app.attachments.documents import DocumentWorkers
from app.attachments.documents.protocol import TextResult, UnreadableFile
from app.attachments.fetch import FetchedFile, Fetcher
from app.chat import datauri
from app.chat.attachments import Attachment, FileText, Inlined, Section
from app.chat.media_types import HEAD_BYTES, correct_media_type
from app.errors import InvalidInput, MediaRefused, ParleyError, TooLarge, Violation
from app.steps.media import MediaRequest


@dataclass(frozen=True, slots=True)
class AttachmentLimits:
    max_count: int
    """Media of one request whose bytes are needed."""
    max_total_bytes: int
    """Fetched for one request."""
    fetched_at_once: int = 4


class AttachmentLoader:
    def __init__(self, fetcher: Fetcher, workshop: DocumentWorkers, limits: AttachmentLimits) -> None:
        self._fetcher = fetcher
        self._workers = workshop
        self._limits = limits

    def check_url_text(self, urls: Sequence[tuple[str, str]]) -> list[Violation]:
        """What is wrong with URLs, each with its place, that go on as they are; told from their text alone."""
        found = []
        for url, path in urls:
            try:
                self._fetcher.check_url_text(url)
            except MediaRefused as error:
                found.append(Violation(path, f"{error.message}, and the model's server is not to read it"))
        return found

    async def load(
        self, wanted: Sequence[MediaRequest], hold: Callable[[int], None] = lambda size: None
    ) -> dict[MediaRequest, Attachment]:
        """Everything that is wanted; `hold` is told how many bytes were fetched, and may raise. Raises InvalidInput
        with all that is refused, or the one error there is."""
        fetched = [item for item in wanted if item.purpose != "resolve"]
        if len(fetched) > self._limits.max_count:
            text = f"no more than {self._limits.max_count} media of one request are read"
            raise TooLarge(text, fetched[self._limits.max_count].path)
        if not wanted:
            return {}
        run = _RequestLoader(self._fetcher, self._workers, self._limits, hold)
        found = await asyncio.gather(*(run.load(item) for item in wanted), return_exceptions=True)
        _raise_first([error for error in found if isinstance(error, BaseException)])
        return {item: one for item, one in zip(wanted, found, strict=True) if not isinstance(one, BaseException)}


def _raise_first(errors: list[BaseException]) -> None:
    """What is no refusal comes first: with it the request may work later, or it is our defect."""
    others = [error for error in errors if not isinstance(error, MediaRefused)]
    if others:
        raise others[0]
    refused = [error for error in errors if isinstance(error, MediaRefused)]
    if len(refused) == 1:
        raise refused[0]
    if refused:
        raise InvalidInput([Violation(error.param or "", error.message) for error in refused])


class _RequestLoader:
    """One request's."""

    def __init__(
        self, fetcher: Fetcher, workshop: DocumentWorkers, limits: AttachmentLimits, hold: Callable[[int], None]
    ) -> None:
        self._fetcher = fetcher
        self._workers = workshop
        self._hold = hold
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
            seen = await self._workers.scale_picture(data, limits.max_pixels, limits.max_short_side, limits.max_bytes)
        if seen.data is not None:
            return Inlined(datauri.encode(seen.media_type, seen.data))
        if isinstance(data, bytes):
            return Inlined(datauri.encode(seen.media_type, data))
        return Inlined(item.url if declared == seen.media_type else f"data:{seen.media_type};base64,{data}")

    async def _load_text(self, item: MediaRequest) -> FileText:
        data, declared, charset = await self._load_data(item)
        async with self._reading:
            read = await self._workers.extract_text(data, item.name, declared, charset)
        return _file_text(read)

    async def _load_inline(self, item: MediaRequest) -> Inlined:
        data, declared, _ = await self._load_data(item)
        size = len(data) if isinstance(data, bytes) else len(data) * 3 // 4
        if item.limits.max_bytes is not None and size > item.limits.max_bytes:
            raise TooLarge(f"is larger than the {item.limits.max_bytes} bytes that this model takes", item.path)
        head = data[:HEAD_BYTES] if isinstance(data, bytes) else datauri.decode_head(data, HEAD_BYTES)
        media_type = correct_media_type(head, declared)
        uri = datauri.encode(media_type, data) if isinstance(data, bytes) else f"data:{media_type};base64,{data}"
        form = datauri.AUDIO_FORMATS.get(media_type)
        if item.purpose == "inline" or form is None:
            return Inlined(uri)
        return Inlined(uri[uri.index(",") + 1 :], form)

    async def _load_data(self, item: MediaRequest) -> tuple[bytes | str, str, str | None]:
        """(bytes, or base64 as it came; declared type; charset)."""
        if datauri.is_data(item.url):
            head = datauri.parse(item.url)
            data = item.url[head.start :] if head.base64 else datauri.decode(item.url)
            return data, head.media_type, head.charset
        fetched = await self._fetch_once(item)
        return fetched.data, fetched.media_type, fetched.charset

    async def _fetch_once(self, item: MediaRequest) -> FetchedFile:
        """The first who wants a URL fetches it; the others wait for the same."""
        key = (item.url, item.media)
        future = self._fetched.get(key)
        if future is not None:
            return await asyncio.shield(future)
        future = self._fetched[key] = asyncio.get_running_loop().create_future()
        try:
            fetched = await self._fetch(item)
        except BaseException as error:
            future.set_exception(error if isinstance(error, ParleyError) else MediaRefused("was not read"))
            future.exception()
            raise
        future.set_result(fetched)
        return fetched

    async def _fetch(self, item: MediaRequest) -> FetchedFile:
        async with self._fetching:
            fetched = await self._fetcher.fetch(item.url, kinds=(item.media,), param=item.path)
        self._total_bytes += len(fetched.data)
        if self._total_bytes > self._max_total_bytes:
            raise TooLarge(f"the media of one request are more than {self._max_total_bytes} bytes", item.path)
        self._hold(len(fetched.data))
        return fetched


def _file_text(read: TextResult) -> FileText:
    sections = tuple(Section(text, number, name) for number, name, text in read.sections)
    return FileText(sections, read.unit, read.left_out, read.cut, read.scanned)
