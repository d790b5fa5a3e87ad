"""Codex's arguments and settings."""

from app.coding_agents.agent import Connection
from app.coding_agents.agents import AGENTS
from msgspec.structs import replace

from tests.coding_agents.started_agents import FOLDER, HOME, SMALL, UNKNOWN, URL, find_key, settings, start


def test_codex_gets_settings_as_arguments_and_the_key_as_a_variable() -> None:
    started = start("codex", "exec", "hi")
    assert started.arguments[1::2][:7] == (
        'model="qwen3"',
        'model_provider="parley"',
        "model_context_window=32768",
        "model_auto_compact_token_limit=28672",
        'model_providers.parley.name="Parley"',
        f'model_providers.parley.base_url="{URL}/v1"',
        'model_providers.parley.wire_api="responses"',
    )
    assert started.arguments[-3:] == ('model_providers.parley.env_key="PARLEY_API_KEY"', "exec", "hi")
    assert started.variables == {"PARLEY_API_KEY": "k"}


def test_codex_uses_a_websocket_where_the_gateway_takes_one() -> None:
    connection = Connection(URL, SMALL, websockets=True)
    started = AGENTS["codex"].make_start(connection, "k", (), FOLDER, HOME)
    assert "model_providers.parley.supports_websockets=true" in started.arguments


def test_an_unknown_window_is_left_out() -> None:
    assert not any("window" in word for word in start("codex", model=UNKNOWN).arguments)


def test_the_file_names_the_variable_of_the_key() -> None:
    assert settings("codex")["path"] == "/home/ann/.codex/config.toml"
    found = [find_key("codex", "model_providers.parley", "env_key", one) for one in (None, "MY_KEY")]
    assert found == [None, "MY_KEY"]


def test_codex_reads_live_pages_where_the_gateway_searches() -> None:
    searching = replace(SMALL, searches=True)
    assert 'web_search="live"' in start("codex", model=searching).arguments
    assert settings("codex", model=searching)["web_search"] == "live"
    assert "web_search" not in settings("codex")
