"""The language of a conversation is that of its system and user messages."""

from typing import Any

import pytest
from app.chat.messages import ChatRequest, Message, Text
from app.steps.prompt_language import _PIECE_CHARS, detect_language

from tests.steps.media.sample_requests import conversation, recorded_alike


@pytest.mark.parametrize("place", [0, 1, _PIECE_CHARS - 1, _PIECE_CHARS, 2 * _PIECE_CHARS + 7])
def test_a_chinese_character_is_found_wherever_it_is_in_a_long_text(place: int) -> None:
    text = "é" * place + "中" + "é" * 9
    assert detect_language(ChatRequest("m", (Message("user", (Text(text),)),))) == "zh"
    assert detect_language(ChatRequest("m", (Message("user", (Text(text.replace("中", "e")),)),))) == "en"


@pytest.mark.parametrize("row", recorded_alike("has_chinese_messages"))
def test_a_conversation_is_chinese_where_qwen_agent_says_so(row: Any) -> None:
    assert (detect_language(conversation(*row["input"])) == "zh") == row["result"]
