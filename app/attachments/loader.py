"""Fetch and convert the media of one request.

One request fetches a few URLs at a time and converts its documents one by one, so that a request with a hundred files
does not delay others. Cancelling `load` stops all of it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct

from app.attachments.documents.protocol import TextResult, UnreadableFile
from app.attachments.documents.worker_pool import DocumentWorkers
from app.attachments.fetch import FetchedFile, Fetcher
from app.attachments.passages import FileSearch, choose_passages
from app.chat import datauri
from app.chat.attachments import Attachment, FileText, Inlined, Section, Unreadable, UnreadSection
from app.chat.media_types import HEAD_BYTES, correct_media_type
from app.errors import InvalidInput, MediaRefused, MediaUnavailable, ParleyError, TooLarge, Violation
from app.steps.media import MediaRequest

AdmitFiles: TypeAlias = Callable[[Mapping[MediaRequest, Attachment]], Awaitable[dict[MediaRequest, Attachment]]]
"""Returns the media with those texts of files that a model may have. Raises ParleyError."""


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

    def check_urls(self, wanted: Sequence[MediaRequest]) -> list[MediaRequest]:
        """Check the URLs that the model's server fetches itself, without any look-up. Return what remains to be loaded:
        the others, and the URLs that are refused where the request goes on without them.

        Raises:
            InvalidInput: a URL of the newest message is refused.
        """
        remaining, violations = [], []
        for item in wanted:
            if item.purpose in ("check", "resolve"):
                try:
                    self._fetcher.check_url_text(item.url)
                except MediaRefused as error:
                    if item.required:
                        violations.append(Violation(item.path, f"{error.message}{_NOT_PASSED}"))
                else:
                    if item.purpose == "check":
                        continue
            remaining.append(item)
        if violations:
            raise InvalidInput(violations)
        return remaining

    async def load(
        self,
        wanted: Sequence[MediaRequest],
        reserve: Callable[[int], None] = lambda size: None,
        caller: str = "",
        search: FileSearch | None = None,
        admit: AdmitFiles | None = None,
    ) -> dict[MediaRequest, Attachment]:
        """Load all media of one request, the required ones first and then the newest. A medium that is not required and
        cannot be loaded is an Unreadable. `search` chooses passages of long files; `admit` sees their texts before.

        `reserve` is called with the size of each fetched file and may raise. `caller` shares the document workers with
        others. Raises TooLarge if more than `max_count` are required, InvalidInput if some of them are refused, else
        the first error that occurred.
        """
        if not wanted:
            return {}
        ordered = [item for item in wanted if item.required] + [item for item in reversed(wanted) if not item.required]
        accepted, found = self._limit_count(ordered)
        loader = _RequestLoader(
            self._fetcher, self._workers, self._limits, reserve, caller, searched=search is not None
        )
        for group in ([item for item in accepted if item.required], [item for item in accepted if not item.required]):
            results = await asyncio.gather(*(loader.load(item) for item in group), return_exceptions=True)
            errors: list[BaseException] = []
            for item, result in zip(group, results, strict=True):
                if not isinstance(result, BaseException):
                    found[item] = result
                elif isinstance(result, _FAULTS_OF_MEDIA) and not item.required:
                    found[item] = Unreadable(result.message)
                else:
                    errors.append(result)
            _raise_first(errors)
        if admit is not None:
            found = await admit(found)
        return found if search is None else await self._search(found, search, caller)

    async def _search(
        self, found: dict[MediaRequest, Attachment], search: FileSearch, caller: str
    ) -> dict[MediaRequest, Attachment]:
        files = {item: file for item, file in found.items() if isinstance(file, FileText)}
        if not files:
            return found
        chosen = await choose_passages(list(files.values()), search, self._workers, caller)
        return found | dict(zip(files, chosen, strict=True))

    def _limit_count(
        self, ordered: Sequence[MediaRequest]
    ) -> tuple[list[MediaRequest], dict[MediaRequest, Attachment]]:
        """Return (the media to load, the attachments of those beyond `max_count`). Raises TooLarge."""
        accepted: list[MediaRequest] = []
        beyond: dict[MediaRequest, Attachment] = {}
        to_load = sum(item.purpose not in ("check", "resolve") for item in ordered)
        count = 0
        for item in ordered:
            count += item.purpose not in ("check", "resolve")
            if count <= self._limits.max_count or item.purpose in ("check", "resolve"):
                accepted.append(item)
            elif item.required:
                text = f"the request has {to_load} media to load; at most {self._limits.max_count} are allowed"
                raise TooLarge(text, item.path)
            else:
                reason = f"the request has {to_load} media to load; only the newest {self._limits.max_count} are loaded"
                beyond[item] = Unreadable(reason)
        return accepted, beyond


_FAULTS_OF_MEDIA = (MediaRefused, MediaUnavailable, TooLarge)
"""Other errors are the gateway's: the same request may succeed later."""
_NOT_PASSED = ", so it is not passed on to the model server"


def _raise_first(errors: list[BaseException]) -> None:
    """Raise an error that is not a refusal first: the request may succeed later, or it shows a bug."""
    others = [error for error in errors if not isinstance(error, MediaRefused)]
    if others:
        raise _name_place(others[0])
    refused = [error for error in errors if isinstance(error, MediaRefused)]
    if refused:
        raise InvalidInput([Violation(error.param or "", error.message) for error in refused])


def _name_place(error: BaseException) -> BaseException:
    """Return the error with the place of its medium in its message."""
    if isinstance(error, MediaUnavailable | TooLarge) and error.param:
        return type(error)(f"{error.param}: {error.message}", error.param)
    return error


class _RequestLoader:
    """Loads the media of one request."""

    def __init__(
        self,
        fetcher: Fetcher,
        workers: DocumentWorkers,
        limits: AttachmentLimits,
        reserve: Callable[[int], None],
        caller: str,
        *,
        searched: bool,
    ) -> None:
        self._caller = caller
        self._searched = searched
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
            if item.purpose == "check" or item.purpose == "resolve":
                return await self._check_url(item)
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

    async def _check_url(self, item: MediaRequest) -> Inlined:
        """Check a URL that the model's server fetches itself."""
        try:
            self._fetcher.check_url_text(item.url)
            if item.purpose == "resolve":
                async with self._fetching:
                    await self._fetcher.check_addresses(item.url, param=item.path)
        except MediaRefused as error:
            raise MediaRefused(f"{error.message}{_NOT_PASSED}", item.path) from None
        return Inlined(item.url)

    async def _load_picture(self, item: MediaRequest) -> Inlined:
        data, _, _ = await self._load_data(item)
        limits = item.limits
        sizes = (limits.max_pixels, limits.max_short_side, limits.max_bytes)
        async with self._reading:
            image = await self._workers.scale_picture(
                data, *sizes, limits.formats, decode=not item.required, caller=self._caller
            )
        if image.data is not None:
            return Inlined(datauri.encode(image.media_type, image.data))
        if isinstance(data, bytes):
            return Inlined(datauri.encode(image.media_type, data))
        return Inlined(datauri.normalize(item.url, image.media_type))

    async def _load_text(self, item: MediaRequest) -> FileText:
        data, declared, charset = await self._load_data(item)
        async with self._reading:
            text = await self._workers.extract_text(
                data, item.name, declared, charset, searched=self._searched, caller=self._caller
            )
        return _file_text(text)

    async def _load_inline(self, item: MediaRequest) -> Inlined:
        data, declared, _ = await self._load_data(item)
        size = len(data) if isinstance(data, bytes) else len(data) * 3 // 4
        if item.limits.max_bytes is not None and size > item.limits.max_bytes:
            text = f"has {size} bytes; this model accepts at most {item.limits.max_bytes}"
            raise TooLarge(text, item.path)
        head = data[:HEAD_BYTES] if isinstance(data, bytes) else datauri.decode_head(data, HEAD_BYTES)
        if not data:
            raise MediaRefused("is empty", item.path)
        media_type = correct_media_type(head, declared)
        uri = datauri.encode(media_type, data) if isinstance(data, bytes) else datauri.normalize(item.url, media_type)
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
    unread = tuple(UnreadSection(number, reason) for number, reason in result.unread)
    pictured = tuple(result.pictured)
    return FileText(sections, result.unit, result.left_out, result.cut, result.scanned, unread, pictured)
