"""The client formats. Each has one row in `FORMATS`, and its name in `app.chat.messages`."""

from app.formats.agentscope.v1 import AGENTSCOPE
from app.formats.agentscope.v2 import AGENTSCOPE2
from app.formats.anthropic import ANTHROPIC
from app.formats.autogen import AUTOGEN
from app.formats.base import Format
from app.formats.gemini import GEMINI
from app.formats.openai import OPENAI
from app.formats.qwen import QWEN
from app.formats.responses import RESPONSES

FORMATS: dict[str, Format] = {
    row.name: row for row in (QWEN, OPENAI, AGENTSCOPE, ANTHROPIC, AGENTSCOPE2, RESPONSES, AUTOGEN, GEMINI)
}
"""A message with signs of several formats is taken for one of the last of these."""
