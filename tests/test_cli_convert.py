"""`parley convert`: a file or standard input in, messages out, warnings aside, and what it ends with."""

import io
import json
from itertools import permutations
from pathlib import Path
from typing import Any, get_args

import pytest
from app.chat.messages import FormatName
from app.cli import main
from app.formats import FORMATS

from tests.conversations.sample_conversations import convert, golden

USER = {"role": "user", "content": "Grüße"}
LOSING = [{**USER, "extra": {"mood": "good"}}]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(messages: Any) -> str:
    Path("file.json").write_text(json.dumps(messages), encoding="utf-8")
    return "file.json"


def test_every_format_can_be_named() -> None:
    assert set(get_args(FormatName)) == FORMATS.keys()


@pytest.mark.parametrize(("form", "to"), list(permutations(FORMATS, 2)))
def test_a_file_becomes_what_the_gateway_makes_of_it(form: str, to: str, capsys: pytest.CaptureFixture[str]) -> None:
    messages = golden("weather", form)
    assert main(["convert", "--from", form, "--to", to, written(messages)]) == 0
    out, err = capsys.readouterr()
    expected, warnings = convert(form, to, messages)
    assert json.loads(out) == expected
    assert err.splitlines() == [f"parley: {warning}" for warning in warnings]


@pytest.mark.parametrize(
    ("encoding", "name"), [("ascii", r"Gr\u00fc\u00dfe"), ("latin-1", "Grüße"), ("utf-8", "Grüße")]
)
def test_characters_that_the_output_cannot_encode_are_escaped(
    encoding: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(output, encoding, write_through=True))
    assert main(["convert", "--from", "qwen", "--to", "openai", written([USER])]) == 0
    assert f'"content": "{name}"' in output.getvalue().decode(encoding)


def test_the_format_is_found_where_none_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--to", "qwen", written(golden("weather", "autogen"))]) == 0
    assert json.loads(capsys.readouterr().out) == convert("autogen", "qwen", golden("weather", "autogen"))[0]


def test_standard_input_is_read_for_a_dash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    raw = json.dumps([USER], ensure_ascii=False).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(raw), "latin-1"))
    assert main(["convert", "--from", "openai", "--to", "qwen", "-"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ([USER], "")
    assert "Grüße" in out


def test_a_loss_is_printed_beside_the_messages(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--to", "openai", written(LOSING)]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out), err) == ([USER], "parley: messages[0]: mood cannot be written in OpenAI's format\n")


def test_strict_refuses_a_loss_with_one_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--strict", "--to", "openai", written(LOSING)]) == 1
    assert capsys.readouterr() == ("", "parley: messages[0]: to openai: mood cannot be written in OpenAI's format\n")


@pytest.mark.parametrize(
    ("messages", "line"),
    [
        ([{"role": "nobody", "content": "x"}], "messages[0].role: "),
        ([], "messages: "),
        ({"messages": [USER]}, "messages: "),
        ([{**USER, "extra": {"a": float("nan")}}], "messages[0].extra.a: "),
    ],
)
def test_what_is_no_list_of_its_format_ends_with_one_and_its_place(
    messages: Any, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["convert", "--from", "qwen", "--to", "openai", written(messages)]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"parley: {line}")


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_file_that_is_no_json_ends_with_two_and_its_name(data: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file.json").write_bytes(data)
    assert main(["convert", "--to", "qwen", "file.json"]) == 2
    assert capsys.readouterr().err.startswith("parley: file.json: is not valid JSON (")


@pytest.mark.parametrize("name", ["nowhere.json", "."])
def test_a_file_that_cannot_be_read_ends_with_two_and_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["convert", "--to", "qwen", name]) == 2
    assert capsys.readouterr().err.startswith(f"parley: {name}: cannot be read (")


@pytest.mark.parametrize(
    "argv", [["--to", "french", "x"], ["--to", "auto", "x"], ["--from", "french", "--to", "qwen", "x"], ["x"], []]
)
def test_a_command_that_names_no_format_ends_with_two(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["convert", *argv])
    assert ended.value.code == 2
    assert "usage: parley convert" in capsys.readouterr().err
