"""A repeated request is answered from the cache without a call to the model; an incomplete reply is never stored."""

import asyncio
import logging
import math
from pathlib import Path
from unittest.mock import Mock

import pytest
from app.cache import CacheRules
from app.cache.policy import CachePolicy, make_cache_policy
from app.calls.entry import LARGE_ENTRY, load
from app.calls.log import LogLimits
from app.chat.events import Event, Failed, Finish, ReasoningDelta, ToolCallDelta
from app.errors import CacheMiss
from app.stores.sqlite import SqliteStore
from msgspec.structs import replace

from tests.cache.cached_replies import CUT, MARKED, OTHER, play
from tests.cache.fake_calls import DONE, say
from tests.cache.fake_model import ENTRY, REPLY, RUBBISH, Bench, Broken, failed
from tests.each_case import each_case

REFRESH, OFF, ONLY = make_cache_policy("refresh"), make_cache_policy("off"), make_cache_policy("only")


# -- hits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_store", [False, True], ids=["at once", "later"])
def test_a_hit_has_the_events_of_the_stored_reply_but_for_the_mark_on_its_usage(from_store: bool) -> None:
    async def scenario(bench: Bench) -> None:
        assert (await bench.ask_and_answer()).received == ("miss", REPLY)
        if from_store:
            await bench.forget_memory()
        answers = [await bench.ask_and_answer() for _ in range(2)]
        assert [answer.received for answer in answers] == [("hit", MARKED)] * 2
        assert [answer.origin.cached for answer in answers] == [True, True]
        assert bench.model.asked == 1
        assert bench.cache.counts == {"miss": 1, "hit": 2}

    play(scenario)


@pytest.fixture
def loading(monkeypatch: pytest.MonkeyPatch) -> Mock:
    """Counts the replies that are decoded."""
    loading = Mock(wraps=load)
    monkeypatch.setattr("app.cache.cache.load", loading)
    return loading


def test_a_stored_reply_is_decoded_once_until_it_is_replaced_or_purged(loading: Mock) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        await bench.forget_memory()
        for _ in range(3):
            assert (await bench.ask_and_answer()).received == ("hit", MARKED)
        assert loading.call_count == 1
        await bench.ask_and_answer(OTHER, control=REFRESH)
        await bench.forget_memory()
        for _ in range(2):
            answer = await bench.ask_and_answer()
            assert answer.received[0] == "hit" and answer.received[1][:-1] == OTHER[:-1]
        assert loading.call_count == 2 and loading.call_args_list[0] != loading.call_args_list[1]
        for expected in (3, 4):
            await bench.cache.purge()
            assert (await bench.ask_and_answer()).received == ("miss", REPLY)
            await bench.forget_memory()
            await bench.ask_and_answer()
            assert loading.call_count == expected, "nothing of a purged reply is left in memory"

    play(scenario)


def test_a_reply_that_is_read_at_its_original_pace_is_not_kept_decoded(loading: Mock) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        await bench.forget_memory()
        for _ in range(2):
            assert (await bench.ask_and_answer()).received == ("hit", MARKED)
        assert loading.call_count == 2

    play(scenario, rules=CacheRules(pace="original"))


def test_a_different_request_is_another_call() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        assert (await bench.ask_and_answer(OTHER, key="other")).received == ("miss", OTHER)

    play(scenario)


def test_a_hit_has_the_time_since_its_reply_ended() -> None:
    async def scenario(bench: Bench) -> None:
        bench.clock.now = 43.7
        assert (await bench.ask_and_answer()).origin.age_seconds == 42
        bench.clock.now = 0.5
        assert (await bench.ask_and_answer()).origin.age_seconds == 0, "clocks differ between machines"

    play(scenario, store=Broken(ENTRY))


def test_a_reply_without_usage_gets_no_mark() -> None:
    async def scenario(bench: Bench) -> None:
        batches: list[list[Event]] = [*say("one"), [Finish("stop")]]
        await bench.ask_and_answer(batches)
        assert (await bench.ask_and_answer()).received == ("hit", batches)

    play(scenario)


def test_a_stored_reply_lives_as_long_as_its_request_says() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer(ttl_seconds=100.0)
        await bench.forget_memory()
        bench.clock.now += 99
        assert (await bench.ask_and_answer()).origin.label == "hit"
        bench.clock.now += 2
        assert (await bench.ask_and_answer()).origin.label == "miss"

    play(scenario)


def test_a_caller_with_a_smaller_max_age_gets_a_new_reply_which_is_stored() -> None:
    async def scenario(bench: Bench) -> None:
        young = CachePolicy(max_age=10)
        await bench.ask_and_answer()
        bench.clock.now += 10
        assert (await bench.ask_and_answer(control=young)).origin.label == "hit"
        bench.clock.now += 1
        assert (await bench.ask_and_answer(OTHER, control=young)).received == ("miss", OTHER), (
            "also of what is still in memory"
        )
        assert (await bench.ask_and_answer(control=young)).origin.label == "hit"
        await bench.forget_memory()
        bench.clock.now += 11
        assert (await bench.ask_and_answer(control=young)).origin.label == "miss"

    play(scenario)


# -- what is stored ----------------------------------------------------------------------------------------------------

CALL: list[Event] = [ToolCallDelta(0, '{"a": 1}', "c1", "f"), ToolCallDelta(1, "{}", "c2", "g")]
GOOD: dict[str, list[list[Event]]] = {
    "text": REPLY,
    "thought": [[ReasoningDelta("Hm")], [DONE]],
    "calls": [CALL, [Finish("tool_calls")]],
    "stop with calls": [CALL, [Finish("stop")]],
}
BAD: dict[str, list[list[Event]]] = {
    "failed": [*say("one"), [Failed(CUT)]],
    "failed at once": [[Failed(CUT)]],
    "filtered": [*say("one"), [Finish("content_filter")]],
    "length": [*say("one"), [Finish("length")]],
    "nothing said": [[DONE]],
    "broken call": [[ToolCallDelta(0, '{"a": ', "c1", "f")], [Finish("tool_calls")]],
    "one broken call of two": [[*CALL, ToolCallDelta(2, "{", "c3", "f")], [Finish("tool_calls")]],
    "too long": [*say("x" * 5000), [DONE]],
}


@pytest.mark.parametrize("batches", GOOD.values(), ids=GOOD)
def test_a_complete_reply_is_kept(batches: list[list[Event]]) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer(batches)
        await bench.forget_memory()
        assert (await bench.ask_and_answer()).origin.label == "hit"

    play(scenario)


@each_case("again", [True, False], ids=["at once", "later"])
@each_case("batches", BAD.values(), ids=BAD)
def test_an_incomplete_reply_is_not_kept(batches: list[list[Event]], again: bool) -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(3):
            assert (await bench.ask_and_answer(batches)).received == ("miss", batches)
            if not again:
                await bench.forget_memory()
        assert (await bench.stats()).entries == 0

    play(scenario, CacheRules(log_limits=LogLimits(max_bytes=5000)))


def test_a_reply_that_was_cut_at_its_token_limit_is_kept_where_that_is_wanted() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer(BAD["length"])
        assert (await bench.ask_and_answer()).origin.label == "hit"
        assert (await bench.ask_and_answer(BAD["filtered"], key="other")).origin.label == "miss"
        assert (await bench.ask_and_answer(key="other")).origin.label == "miss"

    play(scenario, CacheRules(store_length=True))


def test_a_reply_that_its_last_reader_left_is_not_kept_and_one_that_goes_on_is() -> None:
    async def scenario(bench: Bench) -> None:
        left, stays = await bench.ask(), await bench.ask(key="stays", unread_seconds=math.inf)
        for call, answer in zip(bench.model.calls, (left, stays), strict=True):
            call.push(*REPLY[:-1])
            answer.caller.leave()
        assert [call.closes for call in bench.model.calls] == [1, 0]
        bench.model.calls[1].push(REPLY[-1])
        await bench.forget_memory()
        assert (await bench.ask_and_answer(key="stays")).received == ("hit", MARKED)
        assert (await bench.ask_and_answer()).received == ("miss", REPLY)

    play(scenario)


def test_a_large_reply_is_packed_beside_the_loop_and_can_be_had_meanwhile() -> None:
    async def scenario() -> None:
        bench = Bench(CacheRules(linger_seconds=0.0))
        batches: list[list[Event]] = [*say("x" * LARGE_ENTRY), [DONE]]
        answer = await bench.ask()
        bench.model.calls[0].push(*batches)
        answer.caller.leave()
        await asyncio.sleep(0)
        assert bench.cache.storing == 1
        assert (await bench.ask()).origin.label == "hit"
        await bench.settled()
        await asyncio.sleep(0.01)
        assert not bench.cache.in_memory
        assert (await bench.ask_and_answer()).origin.label == "hit"
        await bench.cache.aclose()

    asyncio.run(scenario())


def test_a_reply_that_cannot_be_encoded_is_logged_and_not_stored(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        odd: list[list[Event]] = [*say("one"), [Finish("stop", {"total_tokens": 2**70})]]
        assert (await bench.ask_and_answer(odd)).received == ("miss", odd)
        assert (await bench.stats()).entries == 0
        await bench.forget_memory()
        assert (await bench.ask_and_answer()).received == ("miss", REPLY)
        assert "a reply was not cached" in caplog.text

    play(scenario)


# -- a store in trouble ------------------------------------------------------------------------------------------------


def test_a_store_that_fails_costs_no_reply_and_one_line_of_each_kind(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(bench: Bench) -> None:
        for _ in range(3):
            assert (await bench.ask_and_answer()).received == ("miss", REPLY)
            await bench.forget_memory()

    play(scenario, store=Broken())
    lines = sorted(record.message.split(":")[0] for record in caplog.records if record.levelno >= logging.WARNING)
    assert lines == ["a cached reply was not read", "a reply was not cached"]


@pytest.mark.parametrize("rubbish", RUBBISH.values(), ids=RUBBISH)
def test_a_damaged_entry_is_a_miss_a_line_in_the_log_and_gone(rubbish: bytes, caplog: pytest.LogCaptureFixture) -> None:
    store = Broken(rubbish)

    async def scenario(bench: Bench) -> None:
        with caplog.at_level(logging.WARNING):
            assert (await bench.ask_and_answer()).received == ("miss", REPLY)
        assert "a cached reply cannot be decoded" in caplog.text
        assert store.deleted == ["k"]

    play(scenario, store=store)


def test_a_file_that_is_no_database_is_a_miss(tmp_path: Path) -> None:
    (tmp_path / "cache.db").write_bytes(b"no database at all" * 1000)

    async def scenario() -> None:
        bench = Bench(store=SqliteStore(f"{tmp_path}/cache.db"))
        assert (await bench.ask_and_answer()).received == ("miss", REPLY)
        await bench.cache.aclose()

    asyncio.run(scenario())


# -- modes -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("from_store", [False, True], ids=["at once", "later"])
def test_a_refreshed_reply_stands_in_place_of_the_old_one(from_store: bool) -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        assert (await bench.ask_and_answer(OTHER, control=REFRESH)).received == ("refresh", OTHER)
        if from_store:
            await bench.forget_memory()
        label, batches = (await bench.ask_and_answer()).received
        assert (label, batches[0]) == ("hit", OTHER[0])

    play(scenario)


def test_a_refresh_that_fails_leaves_the_old_reply() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        await bench.ask_and_answer(BAD["failed"], control=REFRESH)
        assert (await bench.ask_and_answer()).received == ("hit", MARKED)
        await bench.forget_memory()
        assert (await bench.ask_and_answer()).received == ("hit", MARKED)

    play(scenario)


@pytest.mark.parametrize(("how", "label"), [(REFRESH, "refresh"), (OFF, "bypass")])
def test_a_call_that_is_not_shared_joins_none_and_is_joined_by_none(how: CachePolicy, label: str) -> None:
    async def scenario(bench: Bench) -> None:
        answers = [await bench.ask(how), await bench.ask(), await bench.ask(how)]
        assert [answer.origin.label for answer in answers] == [label, "miss", label]
        for call in bench.model.calls:
            call.push(*REPLY)
        for answer in answers:
            assert answer.caller.batches == REPLY
            answer.caller.leave()

    play(scenario)


def test_a_refresh_that_ends_during_another_call_does_not_end_that_call() -> None:
    async def scenario(bench: Bench) -> None:
        asked = await bench.ask()
        assert (await bench.ask_and_answer(OTHER, control=REFRESH)).origin.label == "refresh"
        joined = await bench.ask()
        assert joined.origin.label == "shared"
        bench.model.calls[0].push(*REPLY)
        for answer in (asked, joined):
            assert answer.caller.batches == REPLY
            answer.caller.leave()

    play(scenario)


def test_off_neither_reads_nor_writes() -> None:
    async def scenario(bench: Bench) -> None:
        assert (await bench.ask_and_answer(control=OFF)).origin.label == "bypass"
        await bench.ask_and_answer(OTHER)
        assert (await bench.ask_and_answer(control=OFF)).received == ("bypass", REPLY)
        assert (await bench.ask_and_answer()).caller.batches[0] == OTHER[0]
        assert (await bench.stats()).entries == 1

    play(scenario)


@pytest.mark.parametrize("from_store", [False, True], ids=["at once", "later"])
def test_the_mode_only_calls_no_model(from_store: bool) -> None:
    async def scenario(bench: Bench) -> None:
        with pytest.raises(CacheMiss):
            await bench.ask(ONLY)
        assert bench.model.asked == 0
        await bench.ask_and_answer()
        if from_store:
            await bench.forget_memory()
        assert (await bench.ask_and_answer(control=ONLY)).received == ("hit", MARKED)
        with pytest.raises(CacheMiss):
            await bench.ask(replace(ONLY, read=False))

    play(scenario)


def test_only_finds_a_stored_reply_while_a_newer_call_is_in_progress() -> None:
    async def scenario(bench: Bench) -> None:
        bench.cache._store = Broken(ENTRY)
        newer = await bench.ask(CachePolicy(max_age=1))
        assert newer.origin.label == "miss"
        assert (await bench.ask_and_answer(control=ONLY)).received == ("hit", MARKED)
        newer.caller.leave()

    play(scenario)


def test_only_does_not_wait_for_a_call_that_is_under_way() -> None:
    async def scenario(bench: Bench) -> None:
        asked = await bench.ask()
        with pytest.raises(CacheMiss):
            await bench.ask(ONLY)
        asked.caller.leave()

    play(scenario)


# -- what may be purged ------------------------------------------------------------------------------------------------


def test_what_is_purged_is_gone_from_memory_too() -> None:
    async def scenario(bench: Bench) -> None:
        await bench.ask_and_answer()
        assert await bench.cache.purge() == 1
        assert (await bench.ask_and_answer()).origin.label == "miss"

    play(scenario)


def test_a_call_that_is_under_way_outlives_a_purge() -> None:
    async def scenario(bench: Bench) -> None:
        asked = await bench.ask()
        await bench.cache.purge()
        assert (await bench.ask()).origin.label == "shared"
        bench.model.calls[0].push(*REPLY)
        assert asked.caller.batches == REPLY

    play(scenario)


def test_closing_cancels_every_call_and_fails_its_readers() -> None:
    async def scenario(bench: Bench) -> None:
        answers = [await bench.ask(unread_seconds=math.inf), await bench.ask(OFF)]
        await bench.cache.aclose()
        assert [call.closes for call in bench.model.calls] == [1, 1]
        assert all(failed(answer.caller) for answer in answers)

    play(scenario)


UNKEPT = replace(OFF, keep=False)


def test_a_reply_that_is_not_kept_goes_from_the_server_to_its_caller_and_is_held_nowhere() -> None:
    async def scenario(bench: Bench) -> None:
        answer = await bench.ask(UNKEPT)
        assert not answer.found and answer.caller.reply is bench.model.calls[0]
        for batch in REPLY:
            bench.model.calls[0].push(batch)
        assert answer.received == ("bypass", REPLY)
        assert bench.cache.counts["bypass"] == 1
        assert bench.cache.calls == 0 and not bench.ticker.live

    play(scenario)


def test_no_call_is_left_when_the_caller_of_a_reply_that_is_not_kept_leaves_before_the_server_answers() -> None:
    async def scenario(bench: Bench) -> None:
        bench.model.gate = asyncio.Event()
        asking = asyncio.create_task(bench.ask(UNKEPT))
        await asyncio.sleep(0)
        assert bench.model.asked == 1
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert bench.cache.calls == 0 and not bench.model.calls and not bench.ticker.live

    play(scenario)
