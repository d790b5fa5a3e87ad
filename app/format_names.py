"""The names of the client formats, apart from the formats themselves: loading those takes too long for `--help`.

A new format has its name here and its row in `app.formats.FORMATS`.
"""

from typing import Literal, TypeAlias

FormatName: TypeAlias = Literal["qwen", "openai", "autogen", "agentscope", "agentscope2", "anthropic", "responses"]
