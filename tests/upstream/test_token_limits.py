"""Servers' words for a limit of output tokens that is too large, and for a prompt that is too long."""

import json
from datetime import UTC, datetime

from app.chat.events import Fault
from app.upstream import faults
from app.upstream.token_limits import find_excess, find_output_limit

from tests.each_case import each_case
from tests.linear_time import linear

NOW = datetime(2026, 3, 1, tzinfo=UTC)
VLLM = (
    "This model's maximum context length is 16384 tokens. However, you requested {output} output tokens "
    "and your prompt "
    "contains at least {prompt} input tokens, for a total of at least {total} tokens. Please reduce the length of the "
    "input prompt or the number of requested output tokens."
)
OPENAI = (
    "This model's maximum context length is 16384 tokens. However, you requested {total} tokens ({prompt} in the "
    "messages, {output} in the completion). Please reduce the length of the messages or completion."
)
SGLANG = (
    "Requested token count exceeds the model's maximum context length of 16384 tokens. You requested a "
    "total of {total} "
    "tokens: {prompt} tokens from the input messages and {output} tokens for the completion. Please reduce the number "
    "of tokens in the input messages or the completion to fit within the limit."
)
OPENROUTER = (
    "This endpoint's maximum context length is 16384 tokens. However, you requested about {total} tokens ({prompt} of "
    'text input, {output} in the output). Please reduce the length of either one, or use the "middle-out" transform.'
)
ANTHROPIC = (
    "input length and `max_tokens` exceed context limit: {prompt} + {output} > 16384, decrease input length or "
    "`max_tokens` and try again"
)
TGI = (
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 16384. Given: {prompt} `inputs` tokens and "
    "{output} `max_new_tokens`"
)
VLLM_010 = (
    "'max_tokens' or 'max_completion_tokens' is too large: {output}. This model's maximum context length "
    "is 16384 tokens "
    "and your request has {prompt} input tokens ({output} > 16384 - {prompt})."
)
COMPLETION_API = (
    "This model's maximum context length is 16384 tokens, however you requested {total} tokens ({prompt} "
    "in your prompt; "
    "{output} for the completion). Please reduce your prompt; or completion length."
)
TENSORRT = "The sum of prompt length ({prompt}.0), query length (0) and max_tokens ({output}) should not exceed "
SAMBANOVA = (
    "Requested generation length {output} is not possible! The provided prompt is {prompt} tokens long, so generating "
    "{output} tokens requires a sequence length of {total}, but the maximum supported sequence length is just 16384!"
)
BOTH = [VLLM, VLLM_010, OPENAI, COMPLETION_API, SGLANG, OPENROUTER, ANTHROPIC, TGI, SAMBANOVA]
BOTH += [f"{TENSORRT}max_num_tokens (16384)"]
"""Wordings that name the prompt and the limit of output tokens."""


def words(pattern: str, prompt: int, output: int) -> str:
    return pattern.format(prompt=prompt, output=output, total=prompt + output)


def fault(message: str, status: int = 400) -> Fault:
    body = {"error": {"message": message, "type": "BadRequestError", "param": None, "code": status}}
    return faults.from_response(status, {}, json.dumps(body).encode(), NOW)


@each_case("pattern", BOTH)
def test_the_numbers_say_which_of_the_two_is_too_large(pattern: str) -> None:
    for prompt, output in ((412, 16000), (769, 32000), (12000, 8000)):
        found = fault(words(pattern, prompt, output))
        assert (found.code, found.param, found.transient) == ("invalid_request", "max_tokens", False)
        assert found.detail == {"context_tokens": 16384, "input_tokens": prompt, "max_tokens": output}
        assert found.message.startswith("max_tokens is too large for this model: ")
    for prompt, output in ((16384, 1), (17000, 8000), (16000, 1000)):
        assert find_output_limit(words(pattern, prompt, output)) is None


@each_case(
    ("message", "largest"),
    [
        ("max_tokens is too large: 32000. This model supports at most 16384 completion tokens, whereas you …", 16384),
        ("`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less …", 8192),
        ("<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 8192]", 8192),
        ("Invalid max_tokens value, the valid range of max_tokens is [1, 8192]", 8192),
        ("max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens for claude-x", 32000),
        (
            "The parameter max_tokens specified in the request is not valid: integer above maximum value, expected a "
            "value <= 32768, but got 64000 instead.",
            32768,
        ),
        ("The maximum tokens you requested exceeds the model limit of 4096. Try again with a lower value.", 4096),
        (
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from "
            "1 (inclusive) to 65537 (exclusive).",
            65536,
        ),
        ("too many tokens: max tokens must be less than or equal to 4096, the maximum output length", 4096),
        ("max_tokens (32000) must be less than max_model_len (4096)", None),
        ("requested 32000 output tokens and your prompt contains 769", None),
        ("max_total_tokens (32769) must be less than or equal to max_seq_len (16384)", None),
        ("invalid params, max_tokens 1000000 exceeds limit 196608", None),
        ("max_tokens参数非法。请检查文档", None),
    ],
)
def test_a_refusal_of_the_limit_alone_names_it(message: str, largest: int | None) -> None:
    for status in (400, 422, 500):
        found = fault(message, status)
        assert (found.code, found.param) == ("invalid_request", "max_tokens")
        assert (found.detail or {}).get("largest_max_tokens") == largest


@each_case(
    ("message", "status", "code"),
    [
        (
            "This model's maximum context length is 4096 tokens. However, your messages resulted in 5000 tokens.",
            400,
            "context_length_exceeded",
        ),
        (
            "This model's maximum context length is 4096 tokens. However, your prompt contains 5000 input tokens.",
            400,
            "context_length_exceeded",
        ),
        (words(VLLM, 17000, 8000), 400, "context_length_exceeded"),
        ("request (5000 tokens) exceeds the available context size (4096 tokens)", 400, "context_length_exceeded"),
        ("prompt is too long: 210000 tokens > 200000 maximum", 400, "context_length_exceeded"),
        ("Your request exceeded model token limit: 262144 (requested: 300769)", 400, "context_length_exceeded"),
        ("max_tokens must be at least 1, got -904.", 400, "context_length_exceeded"),
        ("Could not finish the message because max_tokens or model output limit was reached.", 400, "invalid_request"),
        ("Unsupported parameter: 'max_tokens' is not supported with this model.", 400, "invalid_request"),
        ("`max_tokens` must be greater than `thinking.budget_tokens`.", 400, "invalid_request"),
        ("This request requires more credits, or fewer max_tokens. You requested 65536.", 402, "insufficient_quota"),
        ("max_tokens exceeds your limit of tokens per minute", 429, "rate_limit"),
    ],
)
def test_other_errors_are_not_about_the_limit_of_output_tokens(message: str, status: int, code: str) -> None:
    found = fault(message, status)
    assert (found.code, found.param, found.message) == (code, None, message)


@each_case("text", ["max_tokens ", "1 + ", "requested 1 output tokens ", "context length is 1 ", "(1 > ", "inputs "])
def test_a_long_message_is_read_in_linear_time(text: str) -> None:
    assert linear(lambda size: find_output_limit(text * (size // len(text))), 1000)


@each_case(
    ("message", "numbers"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", (213462, 200000)),
        ("Error code: 400 - prompt is too long: 213,462 tokens > 200,000 maximum", (213462, 200000)),
        ("The prompt is too long: 200000, model maximum context length: 131071", (200000, 131071)),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", (1196265, 1048575)),
        ("request (9000 tokens) exceeds the available context size (8192 tokens), try increasing it", (9000, 8192)),
        ("Your request exceeded model token limit: 262144 (requested: 300000)", (300000, 262144)),
        (words(VLLM, 17000, 0), (17000, 16384)),
        (words(OPENAI, 17000, 1000), (17000, 16384)),
        ("This model's maximum context length is 8192 tokens. However, you requested 9000 tokens.", None),
        (
            "Bad request: prompt token count (5000) cannot exceed 4096. Total token count cannot exceed 4096.",
            (5000, 4096),
        ),
        ("Requested token count exceeds the model's maximum context length of 262144 tokens.", None),
        ("input length and max_tokens exceed context limit: 199321 + 48384 > 200000", None),
        ("invalid params, context window exceeds limit (2013)", None),
        ("the model m-20250101 takes 4096 tokens: the input is too long", None),
        ("Expected a string with maximum length 10485760, but got one with length 12000000: string too long.", None),
        ("Request size of 250000 bytes exceeds the limit of 200000 bytes", None),
        ("", None),
    ],
)
def test_how_long_a_prompt_is_and_may_be(message: str, numbers: tuple[int, int] | None) -> None:
    excess = find_excess(message)
    assert (excess and (excess.tokens, excess.limit)) == numbers


@each_case("text", ["1,000,", "1000 ", "1.", "12345678901234", "context length is 1 "])
def test_the_numbers_of_a_long_message_are_read_in_linear_time(text: str) -> None:
    assert linear(lambda size: find_excess(text * (size // len(text))), 1000)
