"""Open the reply to a request: choose an upstream, retry, fall back to another model, ask two servers at once.

This is where a request is sent again, only while the caller has received nothing of a reply and the fault is one that
may be retried (`Fault.transient`). `upstream/http` sends it once more after a connection that the server had closed,
and with a new credential after a refused one. The head of a response does not count as a reply: a server may
stall or fail after it. So where there is another server to try, or one has failed, the reply is opened at the first
token that is a part of an answer. An empty reply is treated like an error; it is returned if no request brings a better
one.

The order: each upstream of the model once, those that are available first; then `max_retries` more requests with
growing waits; then the fallback models, each in the same way but without retries; then the upstreams of the model that
were left out for them because they were not available.
"""

import asyncio
import contextlib
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from app.chat.events import Event, Finish
from app.chat.stream import AttemptLog, Reply
from app.chat.token_record import TokenRecord
from app.endpoints.answer import make_answer_reader
from app.endpoints.meter import AnswerMeter
from app.endpoints.refusals import explain_refusal
from app.endpoints.urls import join_url
from app.errors import ParleyError, UpstreamFailed
from app.params import find_max_tokens
from app.routing.exchange import EmptyReply, Exchange, ExchangeOptions
from app.routing.pool import PoolMember, UpstreamStates, choose_available, choose_least_bad, count_move, make_use
from app.routing.retry_budget import RetryBudget
from app.routing.route import Deployment, ModelRoute, PassingRequest, PreparedRequest
from app.routing.upstream_state import LatencyWindow
from app.runtime.ticker import Ticker
from app.steps import pipeline
from app.steps.token_logprobs import LogprobsStage
from app.upstream import causes, faults
from app.upstream.api import Api, apply_repairs, find_api, find_renamed, repair_refused, should_stream
from app.upstream.http.client import Target, UpstreamClient
from app.upstream.http.transport import ResponseBody
from app.upstream.refused_betas import Headers
from app.upstream.reply.reader import ReplyReader
from app.upstream.reply.stream import UpstreamStream
from app.usage.meter import CallMeter

log = logging.getLogger("parley.routing")
_MAX_LOGGED = 100
"""Of no more models it is logged that their calls arrive as text: behind a pass-through, callers choose the names."""
_MAX_REPAIRS = 4
"""How often one request is sent again with what its server has refused changed. Servers name one thing at a time, and
what made a body acceptable is remembered only once one was accepted."""
_MAX_REPAIRED = 1000
"""Of how many callers and models the repairs are known."""
RETRY_SECONDS = 0.5
"""The first wait before a retry, if the server sends no `Retry-After`. It doubles with each retry."""
MAX_RETRY_SECONDS = 30.0
"""If a server demands a longer wait, the request is not retried, and the caller gets the error."""
MIN_HEDGE_SAMPLES = 20
"""With fewer times to the first token, their 95th percentile means nothing, and no second request is sent."""
_CLOCK_TICK_SECONDS = 0.001
"""uvloop counts whole milliseconds: its timers can end one before the time that they were set to."""
_DEADLINE_TEXT = "the model server sent no token before the deadline of the model (deadline_seconds)"

_RepairKey = tuple[str, str, str, str]
"""The caller, the upstream's name, its address, and the path if it has the model."""
Explain = Callable[[UpstreamFailed, Deployment], Awaitable[UpstreamFailed]]
"""Adds advice for the operator to a fault."""
PrepareFallback = Callable[[str], Awaitable[PreparedRequest]]
"""Prepares the caller's request for another model. Raises ParleyError if that model cannot serve it."""


class _Call(Struct, frozen=True):
    """One request, while it is opened with one model."""

    prepared: PreparedRequest
    reply_id: str
    options: ExchangeOptions
    members: Sequence[PoolMember]
    deadline: float | None
    """In the event loop's time."""
    deadline_seconds: float
    """How long after the request began it is; 0 without one."""
    max_retries: int
    has_fallbacks: bool
    """The reply is opened at its first token also by the last attempt, because another model may follow."""
    skips_unavailable: bool
    """After a failure, upstreams that are not available are not tried, because another model may follow."""

    @property
    def route(self) -> ModelRoute:
        return self.prepared.route

    @property
    def is_over(self) -> bool:
        """Whether the deadline has passed, or is less than a tick of the clock away."""
        return self.deadline is not None and _loop_time() + _CLOCK_TICK_SECONDS >= self.deadline


class _Opened(Struct, frozen=True):
    """A response, and what was changed in the body that it answers."""

    body: ResponseBody
    warnings: list[str]
    renamed: dict[str, str]
    """Functions that were sent by another name: the given one by that."""


class UpstreamCaller:
    """Opens replies. It belongs to one event loop."""

    def __init__(
        self,
        client: UpstreamClient,
        states: UpstreamStates,
        ticker: Ticker,
        explain: Explain,
        *,
        budget: RetryBudget,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._client = client
        self._states = states
        self._ticker = ticker
        self._explain = explain
        self._budget = budget
        self._retry_seconds = retry_seconds
        self._first_tokens: dict[str, LatencyWindow] = {}
        """The times to the first token of the models that send second requests."""
        self._text_tools: set[tuple[str, str]] = set()
        """The models and upstreams whose calls in text were logged."""
        self._repairs: dict[_RepairKey, tuple[str, ...]] = {}
        """The repairs that the bodies of a caller need, those that were made last at the end."""

    def _report_text_tools(self, model: str, upstream: str, family: str) -> None:
        """Log once that calls of a model were found in the text, with the line that makes it a setting."""
        if (model, upstream) in self._text_tools or len(self._text_tools) >= _MAX_LOGGED:
            return
        self._text_tools.add((model, upstream))
        log.warning(
            "the function calls of the model %.200r at %r arrive as text, and are read: "
            'text_tools = "%s" under [models.%.200s.profile] reads them while they arrive',
            *(model, upstream, family, model),
        )

    async def open(
        self,
        prepared: PreparedRequest,
        reply_id: str,
        attempts: AttemptLog,
        prepare_fallback: PrepareFallback | None = None,
    ) -> Reply:
        """Return the reply once it has begun. Each request is added to `attempts`.

        Raises the last error of the model that was requested: UpstreamFailed, or `prepared.error`. The caller has
        received no event by then.
        """
        now = _loop_time()
        self._budget.count_request(now)
        route = prepared.route
        options = self._make_options(prepared, attempts, None)
        if prepared.has_one_attempt:
            return (await self._send(prepared, 0, reply_id, options)).record_answer()
        deadline = None if route.deadline_seconds is None else now + route.deadline_seconds
        members = self._find_members(prepared, attempts)
        retries, has_fallbacks = prepared.max_retries, route.has_fallbacks
        seconds = route.deadline_seconds or 0.0
        call = _Call(
            prepared, reply_id, options, members, deadline, seconds, retries, has_fallbacks, bool(route.fallbacks)
        )
        attempts.shown = len(members) > 1 or call.has_fallbacks
        error, left_out = prepared.error, members
        if error is None and (not route.fallbacks or _any_available(members)):
            try:
                return await self._open_model(call)
            except UpstreamFailed as failure:
                error = failure
                left_out = [member for member in members if not member.asked]
        if prepare_fallback is not None:
            names = route.fallbacks if error is None else route.fallbacks_after(error)
            for name in names:
                if call.is_over:
                    break
                reply = await self._open_fallback(name, call, prepare_fallback, is_last=name == names[-1])
                if reply is not None:
                    return reply
        last = replace(call, members=left_out, skips_unavailable=False)
        if error is None:
            return await self._open_model(last)
        goes_on = isinstance(error, UpstreamFailed) and _may_go_on(error) and not call.is_over
        if call.skips_unavailable and left_out and goes_on and self._budget.take(_loop_time()):
            with contextlib.suppress(UpstreamFailed):
                return await self._open_model(last)
        if isinstance(error, EmptyReply):
            return error.reply
        raise error

    def _make_options(
        self, prepared: PreparedRequest, attempts: AttemptLog, fallback_model: str | None
    ) -> ExchangeOptions:
        first_token = None
        if prepared.route.hedge_after == "p95":
            first_token = self._first_tokens.setdefault(prepared.route.model, LatencyWindow())
        return ExchangeOptions(attempts, fallback_model, first_token, prepared.wait_seconds)

    def _find_members(self, prepared: PreparedRequest, attempts: AttemptLog) -> list[PoolMember]:
        return self._states.members(prepared.route, prepared.endpoint, attempts.caller)

    async def _open_fallback(
        self, model: str, call: _Call, prepare_fallback: PrepareFallback, *, is_last: bool
    ) -> Reply | None:
        """Return the reply of another model; None if it fails too, or cannot serve the request. A model of which no
        upstream is available is left out, unless it is the last."""
        try:
            prepared = await prepare_fallback(model)
            if prepared.error is not None:
                return None
            members = self._find_members(prepared, call.options.attempts)
            if not is_last and not _any_available(members):
                return None
            options = self._make_options(prepared, call.options.attempts, prepared.route.model)
            other = _Call(
                prepared, call.reply_id, options, members, call.deadline, call.deadline_seconds, 0, True, not is_last
            )
            return await self._open_model(other)
        except ParleyError:
            return None

    async def _open_model(self, call: _Call) -> Reply:
        """Return the reply of one model. Raises UpstreamFailed with the last fault, or the last EmptyReply."""
        untried = list(call.members)
        retries = 0
        empty: EmptyReply | None = None
        shown: UpstreamFailed | None = None
        while True:
            member = self._choose(call, untried)
            untried.remove(member)
            may_repeat = retries < call.max_retries or (retries == 0 and bool(untried))
            waits = may_repeat or call.has_fallbacks or shown is not None  # the last of several faults is a status, too
            try:
                exchange = await self._send_with_hedge(call, member, untried, wait=waits)
                if waits:
                    await self._wait_for_answer(call, exchange)
                return exchange.record_answer()
            except UpstreamFailed as error:
                failure = error
                empty = error if isinstance(error, EmptyReply) else empty
            refused = causes.is_of_account(failure.fault)
            if refused:
                member.refused_until = math.inf  # by this request it is asked again only if no other one can be
            if shown is None or not refused:  # else the caller would take the fault of the other server for lasting
                shown = failure
            in_first_round = retries == 0 and bool(untried)
            repeats = retries < call.max_retries and failure.retryable
            if not _may_go_on(failure) or not (in_first_round or repeats) or call.is_over:
                raise empty or shown
            if call.skips_unavailable and not _any_available(untried or call.members):
                raise empty or shown
            seconds: float | None = 0.0
            if not in_first_round:
                seconds = self._retry_wait_seconds(call, failure, member, retries)
                retries += 1
                untried = untried or list(call.members)
            # A server that refuses the account has little to do for it, and is not asked again.
            if seconds is None or not (refused or self._budget.take(_loop_time())):
                raise empty or shown
            if seconds:
                await asyncio.sleep(seconds)

    async def _wait_for_answer(self, call: _Call, exchange: Exchange) -> None:
        """Wait for a part of an answer, which ends all attempts. Raises UpstreamFailed."""
        try:
            await exchange.wait_for_answer(self._ticker, reasoning_suffices=call.prepared.request.stream)
        except UpstreamFailed as failure:
            exchange.log_failure(failure.fault)
            raise
        except BaseException:
            exchange.cancel()
            raise

    def _choose(self, call: _Call, members: Sequence[PoolMember]) -> PoolMember:
        """Return an available member, else the least bad one: the pool is never empty."""
        if len(members) == 1:
            return members[0]
        route, now = call.route, _loop_time()
        prefix = call.prepared.prefix
        chosen = choose_available(members, route.strategy, prefix, now, random.random())
        if chosen is None:
            return choose_least_bad(members, now)
        if prefix:
            count_move(call.members, chosen, prefix)
        return chosen

    def _retry_wait_seconds(
        self, call: _Call, failure: UpstreamFailed, failed: PoolMember, retries: int
    ) -> float | None:
        """Return the wait before a request is sent again; None if that is too long."""
        now = _loop_time()
        seconds = min(self._retry_seconds * 2.0**retries, MAX_RETRY_SECONDS) * (1 + random.random() / 2)
        demanded = failure.fault.retry_after_seconds
        if demanded is not None and not _any_available([member for member in call.members if member is not failed]):
            if demanded > MAX_RETRY_SECONDS:
                return None
            seconds = demanded * (1 + random.random() / 10)
        if call.deadline is not None and now + seconds >= call.deadline:
            return None
        return seconds

    # One request, or two of which the quicker one wins.

    async def _send_with_hedge(
        self, call: _Call, member: PoolMember, untried: list[PoolMember], *, wait: bool
    ) -> Exchange:
        """Send the request to a member, and if no token comes in time, to another one too. The first token wins; the
        other request is cancelled and its connection closed. A member that is chosen is removed from `untried`."""
        delay = self._hedge_delay(call)
        if delay is None:
            return await self._send_to(call, member, wait=wait or call.deadline is not None)
        tasks = [asyncio.ensure_future(self._send_to(call, member, wait=True))]
        winner: Exchange | None = None
        try:
            await asyncio.wait(tasks, timeout=delay)
            other = None if tasks[0].done() else self._choose_second(call, member)
            if other is not None and self._budget.take(_loop_time()):
                if other in untried:
                    untried.remove(other)
                tasks.append(asyncio.ensure_future(self._send_to(call, other, wait=True)))
            winner = await _first_success(tasks)
        finally:
            for task in tasks:
                task.cancel()
            try:
                await asyncio.wait(tasks)
            except asyncio.CancelledError:
                winner = None  # the caller has left
                raise
            finally:
                for task in tasks:
                    _cancel_loser(task, winner)
        return winner

    def _choose_second(self, call: _Call, first: PoolMember) -> PoolMember | None:
        """Return an upstream for a second request: another one that is available, or the only one."""
        others = [member for member in call.members if member is not first] or [first]
        return choose_available(others, call.route.strategy, call.prepared.prefix, _loop_time(), random.random())

    def _hedge_delay(self, call: _Call) -> float | None:
        """Return how long to wait for the first token until a second request is sent; None if none is."""
        if call.route.hedge_after != "p95":
            return call.route.hedge_after
        window = call.options.first_token
        return window.quantile(0.95) if window is not None and len(window) >= MIN_HEDGE_SAMPLES else None

    def _send_to(self, call: _Call, member: PoolMember, *, wait: bool) -> "Coroutine[Any, Any, Exchange]":
        member.asked = True
        return self._send(
            *(call.prepared, member.index, call.reply_id, call.options, call.deadline, call.deadline_seconds), wait=wait
        )

    async def _send(
        self,
        prepared: PreparedRequest,
        index: int,
        reply_id: str,
        options: ExchangeOptions,
        deadline: float | None = None,
        deadline_seconds: float = 0.0,
        *,
        wait: bool = False,
    ) -> Exchange:
        """Send one request. With `wait`, the reply has begun when this returns; else only the head has arrived.

        Raises UpstreamFailed.
        """
        deployment = prepared.route.deployments[index]
        passed = prepared.is_passed(index)
        takes_any = passed or prepared.passing is not None
        streams = prepared.request.stream if takes_any else should_stream(prepared.request, deployment.profile)
        target = configured = deployment.target if streams else deployment.target.for_whole_reply()
        if prepared.wait_seconds is not None:
            target = configured.with_timeout(prepared.wait_seconds)
        if options.attempts.sent_at is None:
            options.attempts.sent_at = time.perf_counter()
        exchange = Exchange(self._states.get(target), configured, options, asyncio.get_running_loop().time)
        refusals, use = self._states.refusals, make_use(deployment, prepared.endpoint)
        caller = options.attempts.caller
        refusals.begin(use, caller, _loop_time(), random.random())
        timer = None if deadline is None else asyncio.timeout_at(deadline)
        try:
            starting = self._start(
                exchange, prepared, index, target, reply_id, passed=passed, streams=streams, wait=wait
            )
            if timer is None:
                await starting
            else:
                async with timer:
                    await starting
        except EmptyReply as empty:
            exchange.log_failure(empty.fault)
            raise
        except UpstreamFailed as failure:
            exchange.on_failed(failure.fault)
            if causes.is_of_account(failure.fault):
                refusals.on_refused(use, caller, _loop_time(), random.random())
            if prepared.passing is not None:  # its own path says nothing of the base_url
                exchange.log_failure(failure.fault)
                raise
            error = await self._explain(failure, deployment)
            exchange.log_failure(error.fault)
            raise error from failure
        except BaseException as error:
            if timer is None or not timer.expired():
                exchange.cancel()
                raise
            fault = faults.make_fault("timeout", _DEADLINE_TEXT, upstream=target.name, cause=causes.DEADLINE.word)
            exchange.time_out(fault, deadline_seconds)
            exchange.log_failure(fault)
            raise UpstreamFailed(fault) from error
        refusals.on_answered(use)
        return exchange

    async def _start(
        self,
        exchange: Exchange,
        prepared: PreparedRequest,
        index: int,
        target: Target,
        reply_id: str,
        *,
        passed: bool,
        streams: bool,
        wait: bool,
    ) -> None:
        """Send the request, and attach its reply. `passed`: the client gets the server's own events. `streams`: the
        server is asked for a stream. Raises UpstreamFailed."""
        trace = exchange.attempts.trace
        headers = [] if trace is None else [*trace.begin_attempt(target.name)]
        if prepared.passing is not None:
            await self._start_passing(exchange, prepared, index, target, prepared.passing, headers)
            if wait:
                await exchange.wait_for_first_token(self._ticker)
            return
        profile = prepared.route.deployments[index].profile
        if profile.session_header is not None and prepared.request.session:
            headers.append((profile.session_header.encode(), prepared.request.session.hex().encode()))
        api = find_api(target.api)
        if prepared.is_own(index):
            headers += prepared.headers
        elif api.list_headers is not None:
            headers += api.list_headers(profile)
        path = None  # that of the API
        if api.make_path is not None:
            path = api.make_path(prepared.route.deployments[index].model, streams)
        opened = await self._open_body(target, api, path, prepared.bodies[index], headers, exchange.attempts)
        if passed:
            stages = pipeline.passed_reply_stages(prepared.request, profile, reply_id, opened.renamed)
        else:
            report = partial(self._report_text_tools, prepared.route.model, target.name)
            stages = pipeline.reply_stages(prepared.request, profile, reply_id, report, opened.renamed)
        if api.needs_max_tokens and not passed and find_max_tokens({}, prepared.request.params) is None:
            stages.append(DefaultLimitStage(profile.default_max_tokens))
        if exchange.fallback_model is not None:
            stages.append(FallbackStage(prepared.warnings))
        make_reader = (api.make_passing_reader if passed else None) or api.make_reader
        scored = api.make_scored_passing_reader if passed else api.make_scored_reader
        asks_logprobs = prepared.request.params.get("logprobs")
        if asks_logprobs and scored is not None and pipeline.carries_logprobs(prepared.request, profile):
            record = TokenRecord()
            stages, make_reader = [LogprobsStage(record, stages)], partial(scored, record)
        stages += map(WarningStage, opened.warnings)
        meter = CallMeter(exchange.attempts, prepared.route.price, prepared.prompt_tokens, exchange.fallback_model)
        exchange.attach(
            UpstreamStream(
                opened.body,
                reply_id,
                stages,
                target,
                exchange,
                meter,
                profile.empty_replies,
                exchange.fallback_model,
                make_reader,
                has_own_items=passed,
            )
        )
        if wait:
            await exchange.wait_for_first_token(self._ticker)

    async def _start_passing(
        self,
        exchange: Exchange,
        prepared: PreparedRequest,
        index: int,
        target: Target,
        passing: PassingRequest,
        headers: Sequence[tuple[bytes, bytes]],
    ) -> None:
        """Send a request that is no conversation. Raises UpstreamFailed."""
        own_path = passing.own_paths[index] if passing.own_paths else ""
        named = target.paths.get(passing.name, passing.path)
        url = target.base_url + own_path if own_path else join_url(target.base_url, named)
        try:
            content = passing.uploads[index] if passing.uploads else prepared.bodies[index]
            body = await self._client.open_url(target, url, content, headers, passing.content_type)
        except UpstreamFailed as failure:
            raise UpstreamFailed(explain_refusal(failure.fault, passing.name)) from failure
        meter = AnswerMeter(exchange.attempts, prepared.route.price, passing.estimate, exchange.fallback_model)
        answer = (
            passing.answer if exchange.fallback_model is None else passing.answer.for_model(exchange.fallback_model)
        )

        def make_reader(_: str) -> ReplyReader:
            return make_answer_reader(body.headers, answer)

        exchange.attach(
            UpstreamStream(body, "", (), target, exchange, meter, "accept", exchange.fallback_model, make_reader)
        )

    async def _open_body(
        self,
        target: Target,
        api: Api,
        path: str | None,
        data: bytes,
        headers: Headers,
        attempts: AttemptLog,
    ) -> _Opened:
        """Send a body, and once more without what the server has refused of it, if that can be left out. Raises
        UpstreamFailed."""
        given = data
        key = (attempts.caller, target.name, target.base_url, path or "")
        known, warnings, made = self._repairs.get(key, ()), list[str](), list[str]()
        if known:
            data, headers, warnings = apply_repairs(api, data, headers, known)
        while True:
            try:
                body = await self._client.open(target, data, headers, path, attempts.recorder)
            except UpstreamFailed as failure:
                if len(made) == _MAX_REPAIRS:
                    raise
                repaired = repair_refused(api, data, failure.fault, headers)
                if repaired is None:
                    raise
            else:
                if made:
                    self._remember_repairs(key, made)
                return _Opened(body, warnings, find_renamed(given, [*known, *made]))
            data, headers, warnings = repaired.data, repaired.headers, [*warnings, repaired.warning]
            made.append(repaired.name)

    def _remember_repairs(self, key: _RepairKey, made: Sequence[str]) -> None:
        """Remember what made a body acceptable, for further bodies of its caller: a server's message may repeat what
        the caller has written, and must change nothing for others."""
        known = self._repairs.get(key, ())
        new = tuple(name for name in dict.fromkeys(made) if name and name not in known)
        if new:
            self._repairs.pop(key, None)
            self._repairs[key] = (*known, *new)
            if len(self._repairs) > _MAX_REPAIRED:
                del self._repairs[next(iter(self._repairs))]


class WarningStage:
    """Adds a warning to a reply that ends well."""

    def __init__(self, warning: str) -> None:
        self._warning = warning

    def feed(self, events: list[Event]) -> list[Event]:
        last = events[-1] if events else None
        if type(last) is not Finish:
            return events
        return [*events[:-1], replace(last, warnings=(*last.warnings, self._warning))]


class DefaultLimitStage(WarningStage):
    """Adds a warning to a reply that a limit ended which its request did not have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the reply ended at a limit that the request does not have: this model's default is {limit} tokens beside "
            "those of a thinking budget; give max_tokens, or set default_max_tokens in the model's profile"
        )

    def feed(self, events: list[Event]) -> list[Event]:
        last = events[-1] if events else None
        if type(last) is not Finish or last.reason != "length" or "context" in (last.native_reason or "").lower():
            return events  # a full context is not a missing limit
        return super().feed(events)


class FallbackStage:
    """Marks the reply of a fallback model, which must not be stored as the reply of the model that was requested, and
    adds the warnings of the request for that model."""

    def __init__(self, warnings: tuple[str, ...]) -> None:
        self._warnings = warnings

    def feed(self, events: list[Event]) -> list[Event]:
        last = events[-1] if events else None
        if type(last) is not Finish:
            return events
        return [*events[:-1], replace(last, cacheable=False, warnings=(*last.warnings, *self._warnings))]


def _any_available(members: Sequence[PoolMember]) -> bool:
    now = _loop_time()
    return any(member.is_available(now) for member in members)


def _may_go_on(failure: UpstreamFailed) -> bool:
    """Whether the request may be sent again, to the same server or to another one."""
    return failure.retryable or causes.is_of_server(failure.fault)


async def _first_success(tasks: Sequence["asyncio.Task[Exchange]"]) -> Exchange:
    """Return the result of the first task that succeeds. If all fail, raises the error of one with an empty reply, else
    of the first of them."""
    waiting = set(tasks)
    while waiting:
        _, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done() and not task.cancelled() and task.exception() is None:
                return task.result()
    empty = [task for task in tasks if not task.cancelled() and isinstance(task.exception(), EmptyReply)]
    return (empty or tasks)[0].result()


def _cancel_loser(task: "asyncio.Task[Exchange]", winner: Exchange | None) -> None:
    """Close the connection of a request that lost, now or when its task ends."""
    if not task.done():
        task.add_done_callback(lambda done: _cancel_loser(done, winner))
    elif not task.cancelled() and task.exception() is None and task.result() is not winner:
        task.result().cancel()


def _loop_time() -> float:
    return asyncio.get_running_loop().time()
