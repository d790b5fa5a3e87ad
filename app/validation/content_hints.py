"""The end of the error message for a content part that its format does not have: how the same is written there.

Callers take parts from the example of one API and send them to another one, or leave out the type.
"""

from collections.abc import Mapping
from typing import Any

_DATA = '"data:image/png;base64,…"'
_PDF = '"data:application/pdf;base64,…"'


def _rows(rows: Mapping[str, str]) -> dict[str, str]:
    """Return a text for each type; rows are named by all types that have it."""
    return {name: text for names, text in rows.items() for name in names.split()}


_OPENAI = _rows(
    {
        "image input_image": f'an image is {{"type": "image_url", "image_url": {{"url": {_DATA}}}}}',
        "document input_file": (f'a file is {{"type": "file", "file": {{"filename": "a.pdf", "file_data": {_PDF}}}}}'),
        "output_text": 'a text is {"type": "text", "text": "…"}',
        "audio": 'audio is {"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}}',
        "tool_use function_call": "a call is an entry in `tool_calls` of the assistant message",
        "tool_result function_call_output": "the result of a call is a message of role tool with a `tool_call_id`",
        "thinking reasoning": "reasoning is `reasoning_content` of the assistant message",
    }
)
_ANTHROPIC = _rows(
    {
        "image_url input_image": (
            'an image is {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "…"}} or'
            ' {"type": "image", "source": {"type": "url", "url": "https://…"}}'
        ),
        "file input_file": (
            'a file is {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "…"}}'
        ),
        "input_text output_text": 'a text is {"type": "text", "text": "…"}',
        "input_audio audio audio_url video video_url input_video": (
            "Anthropic's messages have no audio and no video: use POST /v1/chat/completions"
        ),
        "function function_call": 'a call is {"type": "tool_use", "id": "…", "name": "…", "input": {}}',
        "function_call_output": 'a result is {"type": "tool_result", "tool_use_id": "…", "content": "…"}',
        "reasoning": 'reasoning is {"type": "thinking", "thinking": "…"}',
    }
)
_RESPONSES = _rows(
    {
        "image_url image": f'an image is {{"type": "input_image", "image_url": {_DATA}}}',
        "file document": f'a file is {{"type": "input_file", "filename": "a.pdf", "file_data": {_PDF}}}',
        "video_url video": 'a video is {"type": "input_video", "video_url": "https://…"}',
        "audio_url audio": 'audio is {"type": "input_audio", "input_audio": {"data": "…", "format": "wav"}}',
        "tool_use function_call": "a call is an item of its own in `input`, of type function_call",
        "tool_result function_call_output": "a result is an item of its own in `input`, of type function_call_output",
        "thinking reasoning": "reasoning is an item of its own in `input`, of type reasoning",
    }
)
_HINTS: Mapping[str, tuple[Mapping[str, str], str]] = {
    "openai_part_type": (_OPENAI, 'a text is {"type": "text", "text": "…"}'),
    "anthropic_block_type": (_ANTHROPIC, 'a text is {"type": "text", "text": "…"}'),
    "responses_part_type": (_RESPONSES, 'a text is {"type": "input_text", "text": "…"}'),
}
"""By the type of the validation error: the texts by the type of the part, and the one for a part without a type."""
_QWEN_KEYS = ("image", "file", "audio", "video")


def suggest_part(error_type: str, part: Any) -> str:
    """Return the end of an error message, such as "; here an image is {…}", or an empty string."""
    if error_type not in _HINTS:
        return ""
    hints, text = _HINTS[error_type]
    if isinstance(part, str) or (isinstance(part, dict) and "type" not in part and "text" in part):
        return f"; {text}"
    if not isinstance(part, dict):
        return ""
    kind = part.get("type")
    if kind is None:  # Qwen-Agent's items have no type
        kind = next((key for key in _QWEN_KEYS if key in part), None)
        kind = "image_url" if kind == "image" and error_type != "openai_part_type" else kind
    found = hints.get(kind) if isinstance(kind, str) else None
    return f"; here {found}" if found else ""
