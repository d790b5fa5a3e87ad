"""Media that a model does not take, described by another model before the model is asked.

Each medium is described once: a session sends it again with every request. The request to the other model is one of the
caller's own, with that model's price and limits, and is reported like any other.
"""

import asyncio
import hashlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from app.api.asgi import call_in_thread
from app.api.context import AppContext
from app.api.guarding import admit_images
from app.api.reply_opening import TurnOpening, reserve_limits
from app.api.reply_response import ReplyResponse
from app.api.request_in_progress import RequestInProgress
from app.cache.policy import CachePolicy
from app.calls.read_reply import read_reply
from app.chat.accumulator import MessageAccumulator
from app.chat.admitted import mark_admitted
from app.chat.events import Failed, Finish
from app.chat.messages import CallerRights, ChatRequest, Media, Message, Text
from app.chat.stream import AttemptLog, Origin, Reply
from app.config.tables.attachments import MediaDescriptions
from app.errors import Internal, MediaUnavailable, ParleyError, UpstreamFailed
from app.formats.base import DescribedMedium
from app.formats.body import Parsed
from app.gateway import ReplyOptions, new_reply_id, refuse_foreign
from app.observe.request_record import RequestRecord
from app.routing import ModelRoute
from app.steps.media.descriptions import find_media, replace_media, write_description, write_failure

log = logging.getLogger("parley.descriptions")

_LEAST_SECONDS = 24 * 60 * 60
"""How long a description is kept at least."""
_MAX_REASON = 300
PROMPT = (
    "Describe this {kind} for someone who cannot perceive it and has to work with your words alone. Write down all "
    "text that it contains, word for word, and numbers, code and labels exactly. Then say what it shows or holds: what "
    "is where, and what stands out. Do not guess, and add nothing else."
)
_TASK = "\n\nThe description is needed for this task: {task}"
_MAX_TASK = 2000


class _Description(Struct, frozen=True):
    text: str | None
    """None: there is none."""
    reason: str = ""
    """Why there is none."""
    cached: bool = False
    """The other model was not asked."""


class MediaDescriber:
    """Describes the media of the requests of one reply."""

    def __init__(self, context: AppContext, request: RequestInProgress, route: ModelRoute) -> None:
        self._context = context
        self._request = request
        self._route = route
        self._settings: MediaDescriptions = request.live.settings.media_descriptions
        self._parallel = asyncio.Semaphore(self._settings.max_parallel)

    def translate(self, parsed: Parsed) -> Parsed:
        """Return the request without the client's own body, of which a medium would be sent. Raises ParleyError for
        what only a server of the client's API knows."""
        request = parsed.request
        if request.source is None or not find_media(request.messages, self._route.described):
            return parsed
        refuse_foreign(request.source)
        return msgspec.structs.replace(parsed, request=msgspec.structs.replace(request, source=None))

    async def describe(self, conversation: ChatRequest, response: ReplyResponse | TurnOpening) -> ChatRequest:
        """Return the request with words in the places of media, which guards that look at images have seen. Raises
        MediaUnavailable if the operator wants a request refused whose media cannot be described."""
        guard = self._request.guard
        if guard is not None:
            conversation = await admit_images(self._request, guard, conversation)
        found = find_media(conversation.messages, self._route.described)
        if not found:
            return conversation
        prompts = {number: self._write_prompt(media, conversation) for number, media in found.items()}
        keys = await call_in_thread(self._make_keys, found, prompts)
        described = await self._describe_each(conversation, found, prompts, keys)
        texts: dict[int, str] = {}
        for number, media in found.items():
            description = described[keys[number]]
            if description.text is not None:
                texts[number] = write_description(media, number, description.text)
                continue
            texts[number] = write_failure(media, number, description.reason)
            if self._settings.on_failure == "refuse":
                raise MediaUnavailable(f"could not be described: {description.reason}", media.path or None)
        self._report(found, described, keys, response)
        return msgspec.structs.replace(conversation, messages=replace_media(conversation.messages, texts))

    def _report(
        self,
        found: Mapping[int, Media],
        described: Mapping[bytes, _Description],
        keys: Mapping[int, bytes],
        response: ReplyResponse | TurnOpening,
    ) -> None:
        failed = [number for number in found if described[keys[number]].text is None]
        model = self._route.describe_with
        assert model is not None
        response.add_descriptions(
            [DescribedMedium(model, described[keys[number]].cached) for number in found if number not in failed]
        )
        warnings = []
        if len(failed) < len(found):
            count = len(found) - len(failed)
            what = "1 medium was" if count == 1 else f"{count} media were"
            warnings.append(
                f"{what} described by the model {model!r}, because {self._route.model!r} does not take them"
            )
        warnings += (
            f"{found[number].media} {number} could not be described: {described[keys[number]].reason}"
            for number in failed
        )
        response.add_warnings(warnings)

    def _write_prompt(self, media: Media, conversation: ChatRequest) -> str:
        settings = self._settings
        prompt = settings.prompt or PROMPT.format(kind=media.media)
        if not settings.task_aware or self._request.guard is not None:
            return prompt  # guards have not seen the task yet
        return prompt + _TASK.format(task=_find_task(conversation))

    def _make_keys(self, found: Mapping[int, Media], prompts: Mapping[int, str]) -> dict[int, bytes]:
        scope = self._context.cache_scope(self._request.scope)
        return {
            number: _hash((scope, self._route.describe_with, media.media, *media.urls, prompts[number]))
            for number, media in found.items()
        }

    async def _describe_each(
        self,
        conversation: ChatRequest,
        found: Mapping[int, Media],
        prompts: Mapping[int, str],
        keys: Mapping[int, bytes],
    ) -> dict[bytes, _Description]:
        """Return the description of each medium by its key. Of those that are not known, the newest ones are asked
        for."""
        kept = self._context.descriptions
        described: dict[bytes, _Description] = {}
        new: dict[bytes, int] = {}
        for number, key in keys.items():
            text = kept.find(key)
            if text is not None:
                described[key] = _Description(text, cached=True)
                continue
            new.pop(key, None)
            new[key] = number  # the last one of equal media says how new they are
        newest = list(new.items())[-self._settings.max_items :]
        reason = f"a request may have at most {self._settings.max_items} new media"
        described |= {key: _Description(None, reason) for key in list(new)[: len(new) - len(newest)]}
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(self._describe_one(conversation, found[number], prompts[number], key))
                for key, number in newest
            }
        return described | {key: task.result() for key, task in tasks.items()}

    async def _describe_one(self, conversation: ChatRequest, media: Media, prompt: str, key: bytes) -> _Description:
        seconds = self._settings.timeout_seconds
        try:
            async with self._parallel:
                async with asyncio.timeout(seconds):
                    text, cached = await self._ask(media, prompt, conversation.rights)
        except TimeoutError:
            return _Description(None, f"the model {self._route.describe_with!r} did not answer within {seconds:g} s")
        except ParleyError as error:
            return _Description(None, " ".join(error.message.split())[:_MAX_REASON])
        if not text.strip():
            return _Description(None, f"the model {self._route.describe_with!r} said nothing")
        self._context.descriptions.keep(key, text.strip(), self._find_seconds())
        return _Description(text.strip(), cached=cached)

    def _find_seconds(self) -> float:
        return max(_LEAST_SECONDS, self._request.live.settings.cache.ttl_seconds)

    async def _ask(self, media: Media, prompt: str, rights: CallerRights | None) -> tuple[str, bool]:
        """Return what the other model says of a medium, and whether that is from the cache. Raises ParleyError."""
        request, context, gateway = self._request, self._context, self._request.live.gateway
        assert self._route.describe_with is not None
        route = gateway.route(self._route.describe_with)
        asked = ChatRequest(
            model=route.model,
            messages=(Message("user", (msgspec.structs.replace(media, mark=None), Text(prompt))),),
            params={"temperature": 0, "max_tokens": self._settings.max_tokens},
            stream=False,
            rights=rights,
        )
        team = request.caller.team
        record = RequestRecord(request.id, "describe", request.caller.name, "" if team is None else team.name)
        record.requested_model = record.model = route.model
        outcome, attempts = _Outcome(), AttemptLog(record.trace, request.caller.identity)
        origin = Origin()
        try:
            if context.limiter is not None:
                reservation = await reserve_limits(context.limiter, request, route, asked)
                if reservation is not None:
                    record.record_reservation(reservation)
            with context.budget.lease() as lease:
                options = ReplyOptions(
                    new_reply_id(),
                    CachePolicy(ttl_seconds=int(self._find_seconds()), keep=False),
                    context.cache_scope(request.scope),
                    0.0,
                    attempts,
                    lease,
                    partial(context.sharer_id, request.scope),
                )
                admitted = mark_admitted(asked)  # it has no words of the caller's that a guard has not seen
                wanted = await call_in_thread(gateway.find_media_requests, route, admitted)
                loaded = await gateway.load_media(route, admitted, wanted, lease.take, options.find_sharer())
                prepared = await call_in_thread(gateway.prepare, route, admitted, loaded)
                found = await gateway.find(prepared, options)
                origin = found.origin
                reply = await context.cache.open(found)
                return await _read(reply, outcome), origin.cached
        except ParleyError as error:
            outcome.error, outcome.status = error, error.status
            raise
        except asyncio.CancelledError:
            outcome.disconnected = True
            raise
        finally:
            record.record_response(outcome, origin, attempts, None)
            context.finish_request(record)


class _Outcome:
    """How the reply of a description ended, for its record."""

    def __init__(self) -> None:
        self.status = 200
        self.outcome: Finish | None = None
        self.error: ParleyError | None = None
        self.disconnected = False
        self.first_at: float | None = None
        self.send_seconds: float | None = None


async def _read(reply: Reply, outcome: _Outcome) -> str:
    """Return the text of a whole reply. Raises UpstreamFailed, and Internal for a defect."""
    try:
        batches = await read_reply(reply)
    except ParleyError:
        raise
    except Exception as error:
        log.exception("defect while a medium was described")
        raise Internal("the gateway failed while the medium was described") from error
    end = batches[-1][-1]
    if isinstance(end, Failed):
        raise UpstreamFailed(end.fault)
    assert isinstance(end, Finish)
    outcome.outcome = end
    accumulator = MessageAccumulator()
    for events in batches:
        accumulator.feed(events)
    return "\n\n".join(one.text for one in accumulator.messages if one.kind == "content" and not one.refusal)


def _find_task(conversation: ChatRequest) -> str:
    """Return the last words of the user."""
    for message in reversed(conversation.messages):
        texts = [part.text for part in message.parts if isinstance(part, Text)]
        if message.role == "user" and texts:
            return "\n".join(texts)[-_MAX_TASK:]
    return ""


def _hash(parts: Sequence[Any]) -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for part in parts:
        data = str(part).encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.digest()
