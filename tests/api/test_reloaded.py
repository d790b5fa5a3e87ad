"""What a reload changes in a running application, and what it leaves."""

import asyncio
import gc
import hashlib
import time
import weakref
from typing import Any

import pytest
from app.config.settings import Settings
from app.main import create_app
from app.observe import logs

from tests.in_process_gateway import ModelServer, Running

TREE: dict[str, Any] = {
    "cache": {"url": "null:"},
    "upstreams": {"box": {"base_url": "http://box.test/v1"}, "spare": {"base_url": "http://spare.test/v1"}},
    "models": {"m": {"upstreams": ["box"]}},
}
QUESTION = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "stream": False}


def reloaded(gateway: Running, tree: dict[str, Any]) -> bool:
    """Whether the gateway took these settings."""
    gateway.app = create_app(
        Settings.model_validate(TREE), ModelServer(), load_settings=lambda: Settings.model_validate(tree)
    )
    reloader = gateway.context.reloader
    assert reloader is not None
    return gateway.loop.run_until_complete(reloader.reload())


def test_models_keys_limits_and_upstreams_change_and_states_stay() -> None:
    key = {"sha256": hashlib.sha256(b"pk-one").hexdigest()}
    upstreams = {"box": TREE["upstreams"]["box"], "spare": {"base_url": "http://elsewhere.test/v1"}}
    models = {"n": {"upstreams": ["box"], "price": {"input": 1, "output": 1}, "limits": {"requests_per_minute": 1}}}
    new = TREE | {"upstreams": upstreams, "models": models, "keys": {"one": key}}
    with Running(TREE) as gateway:
        assert reloaded(gateway, new)
        context = gateway.context
        assert (gateway.post("/v1/chat", QUESTION).status, context.registry.models()) == (401, ["n"])
        headers = {"authorization": "Bearer pk-one"}
        assert gateway.post("/v1/chat", QUESTION, headers).status == 404
        assert gateway.post("/v1/chat", QUESTION | {"model": "n"}, headers).status == 200
        assert gateway.post("/v1/chat", QUESTION | {"model": "n"}, headers).status == 429
        assert {state.name: state.address for state in context.upstreams} == {
            "box": "http://box.test/v1",
            "spare": "http://elsewhere.test/v1",
        }


def test_what_a_reload_replaces_is_freed_without_the_garbage_collector() -> None:
    tree = TREE | {"passthrough": "spare"}
    with Running(tree) as gateway:
        gateway.app = create_app(
            Settings.model_validate(tree), ModelServer(), load_settings=lambda: Settings.model_validate(TREE)
        )
        context = gateway.context
        assert [gateway.post("/v1/chat", QUESTION | {"model": name}).status for name in ("m", "other")] == [200, 200]
        gc.collect()
        gc.disable()
        try:
            replaced = [weakref.ref(each) for each in (context.registry, context.gateway, context.settings)]
            assert context.reloader is not None
            assert gateway.loop.run_until_complete(context.reloader.reload())
            assert gateway.post("/v1/chat", QUESTION).status == 200
            end = time.monotonic() + 5
            while any(each() for each in replaced) and time.monotonic() < end:
                time.sleep(0.01)  # the thread that has made the new configuration may not have ended its work
            assert [each() for each in replaced] == [None] * 3
        finally:
            gc.enable()


def test_the_state_of_an_upstream_that_stays_is_the_same() -> None:
    with Running(TREE) as gateway:
        app = create_app(
            Settings.model_validate(TREE),
            ModelServer(),
            load_settings=lambda: Settings.model_validate(TREE | {"models": {"n": {"upstreams": ["box"]}}}),
        )
        before = {state.name: state for state in app.state.context.upstreams}
        reloader = app.state.context.reloader
        assert reloader is not None
        assert gateway.loop.run_until_complete(asyncio.ensure_future(reloader.reload(), loop=gateway.loop))
        assert {state.name: state for state in app.state.context.upstreams} == before


def test_a_tokenizer_file_that_cannot_be_used_is_named_and_nothing_changes(capsys: pytest.CaptureFixture[str]) -> None:
    with Running(TREE) as gateway:
        new = TREE | {"models": {"n": {"upstreams": ["box"], "profile": {"tokenizer": "nowhere.json"}}}}
        assert not reloaded(gateway, new)
        assert gateway.context.registry.models() == ["m"]
    logs.flush()
    assert "the old one stays: models.n.profile.tokenizer: nowhere.json: cannot be read (" in capsys.readouterr().err
