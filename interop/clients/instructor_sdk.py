"""instructor: a model's answer as a class, in each of its modes."""

from typing import Any

import instructor
from checks import KEY, MODELS_OF_JSON, V1, check, equal, holds, run
from openai import OpenAI
from pydantic import BaseModel

ASKED: list[Any] = [{"role": "user", "content": "What is the weather in Paris?"}]
MODES = ("TOOLS", "JSON", "MD_JSON", "JSON_SCHEMA")


class Weather(BaseModel):
    city: str
    degrees: int


def client(mode: str = "TOOLS") -> Any:
    sdk = OpenAI(base_url=V1, api_key=KEY, max_retries=0)
    return instructor.from_openai(sdk, mode=getattr(instructor.Mode, mode))


@check("a whole reply without a class")
def whole() -> None:
    reply = client().chat.completions.create(model="demo", response_model=None, messages=ASKED)
    holds(reply.choices[0].message.content, reply)


@check("a stream without a class")
def stream() -> None:
    chunks = client().chat.completions.create(model="demo", response_model=None, messages=ASKED, stream=True)
    holds("".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices))


for _mode in MODES:

    @check(f"an answer as a class: {_mode}")
    def structured(mode: str = _mode) -> None:
        for model in MODELS_OF_JSON if mode in ("JSON", "JSON_SCHEMA") else ("demo",):
            answer = client(mode).chat.completions.create(
                model=model, response_model=Weather, messages=ASKED, max_retries=0
            )
            equal(answer.city, "Paris")


@check("an answer as a class, streamed as it grows")
def partial() -> None:
    for mode in ("TOOLS", "JSON_SCHEMA"):
        parts = list(client(mode).chat.completions.create_partial(model="demo", response_model=Weather, messages=ASKED))
        holds(len(parts) > 1, parts)
        equal(parts[-1].city, "Paris")


run("instructor")
