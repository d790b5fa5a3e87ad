"""The examples of the two documents on Qwen-Agent's messages, each as a request, and what the gateway does with it."""

from dataclasses import dataclass
from typing import Any

from tests.conversations.features import PNG

Json = dict[str, Any]
GUIDE = "guide"
ARTICLE = "article"
USER = {"role": "user", "content": "What is the weather in Tokyo?"}
CALL = {"role": "assistant", "content": "", "function_call": {"name": "get_weather", "arguments": '{"city": "Tokyo"}'}}
RESULT = {"role": "function", "name": "get_weather", "content": '{"temperature": 25, "unit": "Celsius"}'}
THOUGHT = {
    "role": "assistant",
    "content": "",
    "reasoning_content": "Step 1: Identify the city. Step 2: Fetch weather data...",
}
IMAGE = "https://example.com/image.jpg"


@dataclass(frozen=True, slots=True)
class Example:
    """`taken` is what the document says, `refused_at` where the gateway refuses it, `why` what sets the two apart."""

    document: str
    name: str
    request: Json
    taken: bool = True
    refused_at: str | None = None
    why: str = ""


def messages(*given: Json) -> Json:
    return {"messages": list(given)}


def item(**fields: Any) -> Json:
    return messages({"role": "user", "content": [fields]})


def calling(**call: Any) -> Json:
    called = {**CALL, "function_call": call, "extra": {"function_id": "1"}}
    return messages(USER, called, {**RESULT, "name": call["name"], "extra": {"function_id": "1"}})


def offering(name: str, parameters: Any) -> Json:
    return messages(USER) | {"functions": [{"name": name, "description": "…", "parameters": parameters}]}


def options(**cfg: Any) -> Json:
    return messages(USER) | {"generate_cfg": cfg}


FILE_PROCESSOR = {
    "type": "object",
    "properties": {
        "file_path": {"type": "string", "description": "文件路径"},
        "operation": {"type": "string", "enum": ["read", "analyze", "convert"]},
        "options": {"type": "object", "properties": {"encoding": {"type": "string", "default": "utf-8"}}},
    },
    "required": ["file_path", "operation"],
}
LISTED = [
    {"name": "query", "type": "string", "description": "搜索关键词", "required": True},
    {"name": "max_results", "type": "integer", "required": False, "default": 10},
]
SCHEMA = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "max_results": {"type": "integer", "default": 10}},
    "required": ["query"],
}
GENERATE = {
    "top_p": 0.8,
    "temperature": 0.7,
    "max_tokens": 2000,
    "max_input_tokens": 6000,
    "max_retries": 3,
    "seed": 42,
    "stop": ["<|endoftext|>"],
    "function_choice": "auto",
    "parallel_function_calls": True,
    "thought_in_content": False,
    "fncall_prompt_type": "nous",
}
PATHS = "files of the gateway's machine are never read"
NO_TAKER = "no model server takes it; the package sends it as it is"

EXAMPLES = [
    Example(GUIDE, "`Message(role='user', content='Hello')`", messages({"role": "user", "content": "Hello"})),
    Example(GUIDE, "a system message and a question", messages({"role": "system", "content": "Be kind"}, USER)),
    Example(GUIDE, "the question on Tokyo", messages(USER)),
    Example(GUIDE, "`FunctionCall` of `get_weather`", messages(USER, CALL, RESULT)),
    Example(GUIDE, "`ContentItem(text='Hello')`", item(text="Hello")),
    Example(GUIDE, "`ContentItem(image='https://example.jpg')`", item(image="https://example.jpg")),
    Example(GUIDE, "`ContentItem(image='data:image/png;base64,...')`", item(image=f"data:image/png;base64,{PNG}")),
    Example(GUIDE, "an item with `text` and `image`", item(text="Hi", image=IMAGE), False, "content[0]"),
    Example(GUIDE, "an item with no field", item(), False, "content[0]"),
    Example(GUIDE, "an item with a `file` that is a URL", item(file="https://example.com/data.json")),
    Example(
        GUIDE, "an item with a `file` that is a path", item(file="./docs/manual.pdf"), True, "content[0].file", PATHS
    ),
    Example(
        GUIDE,
        "text and an image in one message",
        messages({"role": "user", "content": [{"text": "Describe this image:"}, {"image": IMAGE}]}),
    ),
    Example(GUIDE, "a call, its result, reasoning and an answer", messages(USER, CALL, RESULT, THOUGHT, USER)),
    Example(
        GUIDE, "reasoning as a list of items", messages(USER, {**THOUGHT, "reasoning_content": [{"text": "a"}]}, USER)
    ),
    Example(GUIDE, "`content` that is None", messages({"role": "user", "content": None})),
    Example(GUIDE, "a role that is none of the four", messages({"role": "tool", "content": "x"}), False, "role"),
    Example(GUIDE, "`extra` with anything", messages({**USER, "extra": {"tokens": 5, "logs": ["a"]}})),
    Example(GUIDE, "a message without `content`", messages({"role": "user"}), False, "content"),
    Example(
        ARTICLE,
        "a message without `content`",
        messages({"role": "user"}),
        True,
        "content",
        "the package needs it, whatever the class in the article says",
    ),
    Example(
        ARTICLE, "a user with a name", messages({"role": "user", "content": "请帮我分析这张图片", "name": "用户A"})
    ),
    Example(
        ARTICLE,
        "text and an image in one message",
        messages({"role": "user", "content": [{"text": "请分析这张图片的内容"}, {"image": IMAGE}]}),
    ),
    Example(ARTICLE, "an empty message (to be avoided)", messages({"role": "user", "content": ""})),
    Example(
        ARTICLE, "`ContentItem(text='文本', image='图片')`", item(text="文本", image="图片"), False, "content[0].image"
    ),
    Example(ARTICLE, "an item with no field", item(), False, "content[0]"),
    Example(
        ARTICLE,
        "an item with `text` and an empty `image`",
        item(text="x", image=""),
        True,
        "content[0].image",
        "the package takes it and fails later",
    ),
    Example(ARTICLE, "a role that is none of the four", messages({"role": "bot", "content": "x"}), False, "role"),
    Example(
        ARTICLE,
        "a function's message without a name",
        messages(USER, CALL, {"role": "function", "content": "x"}),
        False,
        "name",
    ),
    Example(
        ARTICLE,
        "a function's message without a name, behind a call that its `function_id` names",
        messages(
            USER,
            {**CALL, "extra": {"function_id": "1"}},
            {"role": "function", "content": "x", "extra": {"function_id": "1"}},
        ),
        False,
        None,
        "nothing is lost: the call has the name",
    ),
    Example(ARTICLE, "image data in base64", item(image=f"data:image/png;base64,{PNG}")),
    Example(ARTICLE, "audio by its URL", item(audio="https://example.com/a.mp3")),
    Example(
        ARTICLE,
        "audio as `{url, duration, format}`",
        item(audio={"url": "https://example.com/a.mp3", "duration": 3, "format": "mp3"}),
        True,
        "content[0].audio",
        NO_TAKER + "; say the URL alone",
    ),
    Example(ARTICLE, "a film by its URL", item(video="https://example.com/a.mp4")),
    Example(
        ARTICLE,
        "a film as a list of `{url, quality, format}`",
        item(video=[{"url": "https://example.com/a.mp4", "quality": "hd", "format": "mp4"}]),
        True,
        "content[0].video[0]",
        NO_TAKER + "; a list is one of frames",
    ),
    Example(
        ARTICLE,
        "a call of `web_search`",
        calling(name="web_search", arguments='{"query": "Python机器学习", "max_results": 5}'),
    ),
    Example(ARTICLE, "a call without a name", calling(name=" ", arguments="{}"), False, "function_call.name"),
    Example(
        ARTICLE,
        "arguments that are an object",
        calling(name="get_weather", arguments={}),
        False,
        "function_call.arguments",
    ),
    Example(
        ARTICLE,
        "arguments that are no JSON",
        calling(name="get_weather", arguments="{"),
        False,
        None,
        "what a model said must be able to go back: a warning names it",
    ),
    Example(ARTICLE, "`parameters` as a list", offering("web_search", LISTED)),
    Example(ARTICLE, "`parameters` as a JSON schema", offering("web_search", SCHEMA)),
    Example(ARTICLE, "the function `file_processor`", offering("file_processor", FILE_PROCESSOR)),
    Example(
        ARTICLE,
        "two tools of one name",
        messages(USER) | {"functions": [{"name": "a"}, {"name": "a"}]},
        False,
        "functions[1].name",
    ),
    Example(ARTICLE, "`GenerateConfig` with all its fields", options(**GENERATE)),
    Example(
        ARTICLE,
        "`use_raw_api` beside `generate_cfg`",
        messages(USER) | {"use_raw_api": False},
        True,
        "use_raw_api",
        "it is a key of `generate_cfg`: what concerns a model's server is the gateway's configuration",
    ),
]
PYTHON = {
    "`msg['role']`, `msg.get(…)`, `model_dump()`, `str(msg)`, `__add__` of `Usage`": "replies have no key that is null",
    "`get_text_content`, `is_multimodal`, `get_type_and_value`, `add_argument`": "a caller's own business",
    "`BaseTool`, `register_tool`, `Agent`, `BaseChatModel`": "tools and agents run at the caller, who names functions",
    "`agent_config`, `RAGConfig`, `files`, `cache_dir`, `model_server`, `api_key`": "[configuration](../settings.md)",
}
"""What is an example of Python, and what replaces it here."""
