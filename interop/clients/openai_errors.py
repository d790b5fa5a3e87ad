"""Checks of OpenAI's SDK: what it raises."""

from typing import Any

import openai
from checks import KEY, V1, check, equal, holds, raises
from openai_shared import HELLO, chat


@check("NotFoundError for an unknown model")
def not_found() -> None:
    error = raises(openai.NotFoundError, lambda: chat.create(model="nobody", messages=HELLO))
    equal((error.code, error.type), ("model_not_found", "invalid_request_error"))


@check("BadRequestError or UnprocessableEntityError, with the path, for an invalid message")
def wrong() -> None:
    kinds: Any = (openai.BadRequestError, openai.UnprocessableEntityError)
    messages: list[Any] = [{"role": "user", "content": [{"type": "picture"}]}]
    error = raises(kinds, lambda: chat.create(model="demo", messages=messages))
    holds(str(error.param).startswith("messages[0]") and error.type == "invalid_request_error", error.body)
    raises(kinds, lambda: chat.create(model="demo", messages=HELLO, n=2))


@check("RateLimitError for a server that reports its rate limit")
def busy() -> None:
    error = raises(openai.RateLimitError, lambda: chat.create(model="busy", messages=HELLO))
    equal((error.status_code, error.type), (429, "rate_limit_error"))
    equal(error.response.headers.get("retry-after"), "7")


@check("InternalServerError for a server that fails")
def failing() -> None:
    raises(openai.InternalServerError, lambda: chat.create(model="failing", messages=HELLO))


@check("APIError in a stream that its server ended with an error")
def broken() -> None:
    read: list[Any] = []
    stream = chat.create(model="broken", messages=HELLO, stream=True)
    error = raises(openai.APIError, lambda: read.extend(iter(stream)))
    holds("lost the plot" in error.message, error.message)


@check("APIError in a stream that was cut")
def cut() -> None:
    stream = chat.create(model="cut", messages=HELLO, stream=True)
    raises(openai.APIError, lambda: list(stream))
    raises(openai.APIError, lambda: chat.create(model="cut", messages=HELLO))


@check("async: errors are the same classes")
async def errors_later() -> None:
    async with openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0) as client:
        for model, kind in (("nobody", openai.NotFoundError), ("busy", openai.RateLimitError)):
            try:
                await client.chat.completions.create(model=model, messages=HELLO)
            except kind:
                continue
            raise AssertionError(f"no {kind.__name__} for {model}")
