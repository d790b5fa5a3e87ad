"""Tells from a server's words that a prompt is too long for the model.

Agents shorten their conversation, and fallbacks with a longer context are asked, if they learn of it. Servers have no
word in common, so the patterns are the sentences that they can make: what is too long, that it is, and which limit it
exceeds. `tests/upstream/test_long_prompts.py` has the wordings of the servers, each with its source.
"""

import re

_SUBJECT = (
    r"\b(?:prompts?|inputs?|request|contexts?|conversation|messages|query|question|sequence|history|texts?"
    r"|(?:prompt_?|input_?|context_?|total_?)?(?:length|tokens?)|(?:token|input|prompt)_count)\b"
)
_TOO_LONG = (
    r"(?:exceed(?:s|ed|ing)?\b|too (?:long|large|big|many)|surpass\w*|overflow\w*|"
    r"(?:longer|greater|larger|bigger|more) than|(?:over|above) the\b|cannot be more|supports? (?:only )?up to|"
    r"must (?:be|have) (?:<|<=|less|fewer|smaller|shorter|at most)|does(?: not|n't) fit|超过|超出|超限|过长|超长)"
)
_LIMIT = r"(?:context|window|max(?:imum|imal)?\b|max_\w+|length|limit\b|limits\b|tokens?\b|限制|上限|长度)"
_NEAR = r"[^.;\n]{0,70}?"

_PATTERNS = (
    # The words of codes and types: OpenAI, llama.cpp, vLLM, GitHub Models, z.ai
    r"context_length_exceeded|exceed_context_size|context_window_exceeded|context_too_long|tokens_limit_reached|"
    r"prompt_too_long|max_prompt_tokens|input_too_long",
    # "input length … exceeds the maximum", "prompt … is longer than the model's context", "tokens … over the limit"
    rf"{_SUBJECT}{_NEAR}{_TOO_LONG}{_NEAR}{_LIMIT}",
    # "the model's maximum context length is … but …", "context window exceeds limit", "context size has been exceeded"
    rf"\bcontext[ _-]?(?:length|window|size|limit){_NEAR}(?:{_TOO_LONG}|not enough)",
    rf"{_TOO_LONG}{_NEAR}\b(?:context[ _-]?(?:length|window|size|limit)|context\b)",
    r"maximum context length|context window of this model|configured context size|context length of only",
    r"maximum (?:input|prompt|sequence|model) length|max(?:imum)? (?:input|prompt) tokens|model token limit",
    r"when context the overflows|context overflow|overflows? the context",  # LM Studio, in these words
    # "prompt is too long", "Input is too long for requested model", "too many input tokens"
    r"\b(?:prompt|input|request|context|conversation|messages)\b[^.;\n]{0,40}? (?:is |are )?"
    r"(?:(?<!took )too long|too many tokens)",
    rf"\b(?:(?:prompt|input)[ _]tokens?|token[ _]count)\b{_NEAR}{_TOO_LONG}{_NEAR}\d{{3,}}",
    r"\btoken limit exceeded|too many (?:input |prompt )?tokens|length of all messages is too long",
    r"reduce (?:the length of|your|the|the number of) (?:the |your )?(?:messages|prompt|input|conversation|context)",
    r"shorten (?:the |your )?(?:messages|prompt|input|conversation|context)",
    r"`inputs` (?:tokens \+ `max_new_tokens`|must have less than)",  # TGI and TEI
    r"range of input length should be|tokens in request more than|max_tokens must be at least 1, got -",
    r"'(?:messages|input)(?:\[\d+\])?(?:\.content(?:\[\d+\])?(?:\.text)?|\.output)?': (?:string|array) too long",
    r"request body too large for \S{1,100} model|text fields that are too large",  # GitHub Models, Vertex
    r"\b(?:total|whole) (?:message|request|prompt|input)s? size \d+ exceeds",  # Moonshot
    r"(?:输入|上下文|提示|消息|请求|对话|文本|prompt|token\w{0,10})[^。;；\n]{0,20}?(?:过长|超长|超出|超过|超限)",
)
_LONG = re.compile("|".join(f"(?:{pattern})" for pattern in _PATTERNS), re.IGNORECASE)
_RATE = re.compile(
    r"rate.?limit|throttl|too many requests|\b(?:per|a|this|for) (?:minute|hour|day|second|month|week)|\bTPM\b|\bRPM\b|"
    r"quota|daily|monthly|weekly|hourly|please wait|try again (?:later|in)|billing|credits?\b|"
    r"余额|额度|频率|速率|每分钟|每日",
    re.IGNORECASE,
)
"""What says that a limit is one of tokens in a time, or of money."""
_COUNTED = re.compile(
    r"\b(?:\d{1,5}|too many) (?:images?|tools?|functions?|documents?|files?|videos?)\b", re.IGNORECASE
)
"""What says that a limit is a number of other things: anomalyco/opencode#48647."""
_WHILE_WRITING = re.compile(r"context size has been exceeded", re.IGNORECASE)
"""What llama.cpp says if the reply has filled the context."""
_CERTAIN = re.compile(r"context_length_exceeded|maximum context length|exceed_context_size", re.IGNORECASE)


def is_long_prompt(words: str) -> bool:
    """Whether the code, type and message of an error say that the prompt is too long."""
    if _LONG.search(words) is None or _WHILE_WRITING.search(words) is not None:
        return False
    other = _RATE.search(words) or _COUNTED.search(words)
    return other is None or _CERTAIN.search(words) is not None
