"""pi's temporary folder, arguments and models."""

import json
from pathlib import Path

from tests.coding_agents.started_agents import HOME, UNKNOWN, find_key, settings, start


def test_pi_keeps_the_rest_of_its_own_folder() -> None:
    started = start("pi", "hi", environ={**HOME, "PI_CODING_AGENT_DIR": "/own"})
    assert started.variables == {"PI_CODING_AGENT_DIR": "/tmp/folder", "PARLEY_API_KEY": "k"}
    assert started.linked == Path("/own")
    assert start("pi").linked == Path("/home/ann/.pi/agent")
    provider = json.loads(started.files["models.json"])["providers"]["parley"]
    assert provider["models"][0] == {
        "id": "qwen3",
        "input": ["text", "image"],
        "contextWindow": 32768,
        "maxTokens": 4096,
    }


def test_a_model_among_the_arguments_is_not_given_twice() -> None:
    assert start("pi", "--model", "mine").arguments == ("--model", "mine")
    assert start("pi").arguments == ("--provider", "parley", "--model", "qwen3")


def test_an_unknown_window_is_left_out() -> None:
    models = json.loads(start("pi", model=UNKNOWN).files["models.json"])["providers"]["parley"]["models"]
    assert models[0] == {"id": "other", "input": ["text"]}


def test_the_file_names_the_variable_of_the_key() -> None:
    assert settings("pi")["path"] == "/home/ann/.pi/agent/models.json"
    found = [find_key("pi", "providers.parley", "apiKey", one) for one in (None, "MY_KEY")]
    assert found == ["any", "$MY_KEY"]
