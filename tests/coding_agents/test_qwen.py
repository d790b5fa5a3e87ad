"""Qwen Code's variables, arguments and settings."""

import json

from tests.coding_agents.started_agents import UNKNOWN, URL, settings, start


def test_qwen_code_keeps_the_model_and_the_login_of_its_arguments() -> None:
    assert start("qwen", "-m", "mine", "--auth-type", "openai").arguments == ("-m", "mine", "--auth-type", "openai")
    assert start("qwen", "hi").arguments == ("--auth-type", "openai", "--model", "qwen3", "hi")


def test_a_file_in_the_temporary_folder_wins_over_the_users_own_settings() -> None:
    started = start("qwen", "hi")
    assert started.variables["QWEN_CODE_SYSTEM_SETTINGS_PATH"] == "/tmp/folder/settings.json"
    settings = json.loads(started.files["settings.json"])
    assert settings["security"]["auth"] == {
        "selectedType": "openai",
        "baseUrl": f"{URL}/v1",
        "apiKey": "$OPENAI_API_KEY",
    }
    assert settings["modelProviders"]["openai"] == [
        {
            "id": "qwen3",
            "name": "qwen3",
            "baseUrl": f"{URL}/v1",
            "envKey": "OPENAI_API_KEY",
            "generationConfig": {"contextWindowSize": 32768},
        },
        {"id": "other", "name": "other", "baseUrl": f"{URL}/v1", "envKey": "OPENAI_API_KEY"},
    ]
    assert settings["model"] == {"generationConfig": {"contextWindowSize": 32768}}


def test_an_unknown_window_is_left_out() -> None:
    assert "model" not in json.loads(start("qwen", model=UNKNOWN).files["settings.json"])


def test_the_file_names_the_variable_of_the_key() -> None:
    assert settings("qwen")["path"] == "/home/ann/.qwen/settings.json"
    assert [settings("qwen", one)["security.auth.apiKey"] for one in (None, "MY_KEY")] == ["any", "$MY_KEY"]
