"""Qwen Code's variables, arguments and settings."""

import json

from tests.coding_agents.started_agents import UNKNOWN, settings, start


def test_qwen_code_keeps_the_model_and_the_login_of_its_arguments() -> None:
    assert start("qwen", "-m", "mine", "--auth-type", "openai").arguments == ("-m", "mine", "--auth-type", "openai")
    assert start("qwen", "hi").arguments == ("--auth-type", "openai", "--model", "qwen3", "hi")


def test_qwen_code_reads_the_window_from_the_temporary_folder() -> None:
    started = start("qwen", "hi")
    assert started.variables["QWEN_CODE_SYSTEM_SETTINGS_PATH"] == "/tmp/folder/settings.json"
    assert json.loads(started.files["settings.json"]) == {"model": {"generationConfig": {"contextWindowSize": 32768}}}


def test_an_unknown_window_is_left_out() -> None:
    assert start("qwen", model=UNKNOWN).files == {}


def test_the_file_names_the_variable_of_the_key() -> None:
    assert settings("qwen")["path"] == "/home/ann/.qwen/settings.json"
    assert [settings("qwen", one)["security.auth.apiKey"] for one in (None, "MY_KEY")] == ["any", "$MY_KEY"]
