"""Tells a limit of output tokens that is too large from a prompt that is too long.

Servers refuse both in the same words: the prompt and `max_tokens` together exceed the context. Clients react to the two
in different ways, so the numbers decide: a prompt that leaves room for a reply is not too long.
"""

import re
from typing import Any

from msgspec import Struct

_N = r"(\d{1,12})"
_PARAM = r"max_?(?:completion_?|output_?|new_?)?tokens(?![a-z0-9_])"


def _compile(*patterns: str) -> "re.Pattern[str]":
    return re.compile("|".join(patterns), re.IGNORECASE)


_CONTEXT = _compile(
    rf"(?:context length|context window|context size|context limit)(?: is| of)? {_N}",
    rf"supported sequence length is(?: just| only)? {_N}",
    rf"(?:max_seq_len|max_num_tokens|max_model_len) ?[(=:] ?{_N}",
    rf"exceed context limit: \d{{1,12}} \+ \d{{1,12}} > {_N}",
    rf"\(\d{{1,12}} > {_N} - \d{{1,12}}\)",
    rf"must be <= {_N}\. given",
)
"""How many tokens the prompt and the reply may have together."""
_PROMPT = _compile(
    rf"(?:prompt|request|input) (?:contains?|has|is)(?: at least| about)? {_N}(?: \w+)? tokens",
    rf"{_N} (?:tokens )?(?:in|from) (?:the|your) (?:input )?(?:messages|prompt|input)",
    rf"{_N} of text input",
    rf"{_N} `?inputs`? tokens",
    rf"prompt length \({_N}",
    rf"exceed context limit: {_N} \+",
    rf"\(\d{{1,12}} > \d{{1,12}} - {_N}\)",
)
_OUTPUT = _compile(
    rf"{_N} (?:output tokens|(?:tokens )?(?:in|for) the (?:completion|output|response))",
    rf"{_N} `?max_new_tokens",
    rf"exceed context limit: \d{{1,12}} \+ {_N}",
    rf"generation length {_N}",
    rf"{_PARAM}(?:'? or 'max_completion_tokens)?'?(?: is too large)?(?: value of)?[ :(]{{1,3}}{_N}",
    rf"(?:got|provided|received) {_N}",
)
_LARGEST = _compile(
    rf"(?:at most|less than|less than or equal to|lower than|<=|≤|model limit of) `?{_N}",
    rf"range of {_PARAM} (?:is|should be) \[\d{{1,12}}, {_N}",
    rf"range is from \d{{1,12}} \(inclusive\) to {_N}",
    rf"{_PARAM}: \d{{1,12}} > {_N}",
)
"""The largest limit of output tokens that the server accepts."""
_TOO_LARGE = _compile(
    rf"{_PARAM}[^.;]{{0,60}}(?:too (?:large|big|high)|exceed|above|supported range|not valid|invalid)",
    rf"{_PARAM}[^.;]{{0,60}}(?:must|should) be (?:<|≤|less|at most|in |between)",
    r"requested \d{1,12} output tokens and your prompt contains",
    rf"{_PARAM}[^.;]{{0,60}}(?:cannot be greater|非法|不能超过|超过|过大|超出)",
    rf"{_PARAM}: \d{{1,12}} > \d",
    rf"(?:invalid|range of|exceeds?|too (?:large|many|high))[^.;]{{0,40}}\b{_PARAM}",
    r"supports? at most \d{1,12} (?:completion|output) tokens",
    r"maximum tokens you requested exceeds",
    r"max_total_tokens \(\d{1,12}\)",
    r"max tokens must be less",
    r"requested generation length",
)
"""What servers say of a limit of output tokens, with or without the numbers of the prompt."""
_FILLED = 15 / 16
"""A prompt of this part of the context is too long, whatever the limit of output tokens is."""


class OutputLimit(Struct, frozen=True):
    """A refusal of the request's limit of output tokens. A number that the server does not say is None."""

    context: int | None = None
    """The most tokens of the prompt and the reply together."""
    prompt: int | None = None
    output: int | None = None
    """The limit that was refused."""
    largest: int | None = None
    """The largest limit that the server accepts for any prompt."""

    def to_detail(self) -> dict[str, Any] | None:
        names = {
            "context_tokens": self.context,
            "input_tokens": self.prompt,
            "max_tokens": self.output,
            "largest_max_tokens": self.largest,
        }
        return {name: value for name, value in names.items() if value is not None} or None


def find_output_limit(message: str) -> OutputLimit | None:
    """Return the numbers if a server refuses a request for its limit of output tokens; None for any other error."""
    context, prompt, output = (_find_number(pattern, message) for pattern in (_CONTEXT, _PROMPT, _OUTPUT))
    if context is not None and prompt is not None and prompt >= context * _FILLED:
        return None
    if context is not None and prompt is not None and output is not None:
        return OutputLimit(context, prompt, output)
    if _TOO_LARGE.search(message) is None:
        return None
    largest = _find_number(_LARGEST, message)
    if largest is not None and f"{largest} (exclusive)" in message:
        largest -= 1
    return OutputLimit(context, prompt, output, largest)


_NUMBER = re.compile(r"(?<![\w.,-])(?:\d{1,3}(?:,\d{3}){1,3}|\d{4,12})(?![\w-]|[.,]\d)")
"""A number of four digits or more: a smaller one is no context, but a status or the number of a message."""
_OTHER_LENGTHS = _compile(r"(?:string|array) too long|\d (?:bytes|characters)\b")

_SUM = _compile(r"you requested \d{1,12} tokens")
"""Names the tokens of the prompt and of the reply together."""


class Excess(Struct, frozen=True):
    """How much too long a prompt is."""

    tokens: int
    limit: int

    def to_detail(self) -> dict[str, Any]:
        return {"input_tokens": self.tokens, "max_input_tokens": self.limit}


def find_excess(message: str) -> Excess | None:
    """Return how long a prompt is, and how long it may be, from the words after which it is too long; None if the
    message does not have both numbers."""
    if _OTHER_LENGTHS.search(message) is not None:
        return None
    numbers = [int(match[0].replace(",", "")) for match in _NUMBER.finditer(message)]
    limit = min(numbers, default=0) if len(set(numbers)) == 2 else _find_number(_CONTEXT, message)
    tokens = _find_number(_PROMPT, message)
    if tokens is None and _SUM.search(message) is None:
        tokens = max(numbers, default=None)
    return None if tokens is None or limit is None or tokens <= limit else Excess(tokens, limit)


def _find_number(pattern: "re.Pattern[str]", message: str) -> int | None:
    match = pattern.search(message)
    return next((int(group) for group in match.groups() if group), None) if match else None
