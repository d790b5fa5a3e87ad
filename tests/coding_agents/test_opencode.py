"""OpenCode's configuration."""

import json

from tests.coding_agents.started_agents import URL, find_key, settings, start


def test_opencode_gets_its_configuration_in_a_variable_without_the_key() -> None:
    started = start("opencode", "run", "hi")
    given = json.loads(started.variables["OPENCODE_CONFIG_CONTENT"])
    assert started.arguments == ("run", "hi")
    assert given["model"] == given["small_model"] == "parley/qwen3"
    assert given["provider"]["parley"]["options"] == {"baseURL": f"{URL}/v1", "apiKey": "{env:PARLEY_API_KEY}"}
    assert given["provider"]["parley"]["models"] == {
        "qwen3": {
            "limit": {"context": 32768, "output": 4096},
            "attachment": True,
            "modalities": {"input": ["text", "image"], "output": ["text"]},
        },
        "other": {},
    }


def test_the_file_names_the_variable_of_the_key() -> None:
    assert settings("opencode")["path"] == "/home/ann/.config/opencode/opencode.json"
    found = [find_key("opencode", "provider.parley", "options", one) for one in (None, "MY_KEY")]
    assert found == ["any", "{env:MY_KEY}"]
