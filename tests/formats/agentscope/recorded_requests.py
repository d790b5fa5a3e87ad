"""Requests that AgentScope's formatters wrote, and where ours differ on purpose."""

from typing import Any

import pytest
from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.base import Format
from app.profiles import Profile

from tests.formats.agentscope.cases import load

OPENAI = Profile(
    names="all", tool_names=True, text_parts=True, replay_reasoning="none", valid_arguments=False, audio="base64"
)

DEEPSEEK = Profile(tool_names=True, valid_arguments=False)


def cases(folder: str, form: Format, formatter: str) -> list[Any]:
    found = []
    for name, golden in load(f"agentscope/{folder}").items():
        if f"{formatter}ChatFormatter" in golden["expected"]:
            expected = golden["expected"][f"{formatter}ChatFormatter"]
            found.append(pytest.param(form, golden["input"], formatter, name[:3], expected, id=f"{folder}-{name}"))
    return found


CASES = [
    case
    for formatter in ("OpenAI", "DeepSeek")
    for folder, form in (("requests_v1", AGENTSCOPE), ("requests_v1_1_0_0", AGENTSCOPE), ("requests_v2", AGENTSCOPE2))
    for case in cases(folder, form, formatter)
]
