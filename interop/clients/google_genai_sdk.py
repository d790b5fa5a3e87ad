"""Google's SDK for Python: whole and streamed, tools, automatic function calling, chats, schemas, counts, errors."""

import base64
from typing import Any

from checks import DOT, KEY, MODELS_OF_JSON, PARLEY, QUESTION, check, equal, holds, raises, run, weather
from google import genai
from google.genai import errors, types
from pydantic import BaseModel

CLIENT = genai.Client(api_key=KEY, http_options=types.HttpOptions(base_url=PARLEY))
DECLARATION = types.FunctionDeclaration(
    name="get_weather",
    description="The weather of a city",
    parameters=types.Schema(
        type=types.Type.OBJECT, properties={"city": types.Schema(type=types.Type.STRING)}, required=["city"]
    ),
)
TOOLS: Any = [types.Tool(function_declarations=[DECLARATION])]
THINKING = types.ThinkingConfig(include_thoughts=True)
BY_HAND = types.AutomaticFunctionCallingConfig(disable=True)


class Weather(BaseModel):
    city: str
    degrees: int


def get_weather(city: str) -> str:
    """The weather of a city."""
    return weather(city)


def parts(reply: Any) -> list[Any]:
    return list(reply.candidates[0].content.parts or ())


@check("a whole reply has text and usage, and thoughts on demand")
def whole() -> None:
    reply = CLIENT.models.generate_content(model="demo", contents="Hello there")
    holds(reply.text and not any(part.thought for part in parts(reply)), reply)
    equal(reply.candidates[0].finish_reason, types.FinishReason.STOP)
    holds(reply.usage_metadata.total_token_count > 0 and reply.model_version == "demo" and reply.response_id, reply)
    config = types.GenerateContentConfig(thinking_config=THINKING)
    thinking = CLIENT.models.generate_content(model="demo", contents="Hello there", config=config)
    holds(parts(thinking)[0].thought, thinking)


@check("a stream: the deltas make the whole")
def streamed() -> None:
    chunks = list(CLIENT.models.generate_content_stream(model="demo", contents="Hello there"))
    text = "".join(chunk.text or "" for chunk in chunks)
    equal(text, CLIENT.models.generate_content(model="demo", contents="Hello there").text)
    equal([chunk.candidates[0].finish_reason for chunk in chunks if chunk.candidates[0].finish_reason], ["STOP"])


@check("async: create and stream")
async def later() -> None:
    chunks = await CLIENT.aio.models.generate_content_stream(model="demo", contents="Hello there")
    text = "".join([chunk.text or "" async for chunk in chunks])
    reply = await CLIENT.aio.models.generate_content(model="demo", contents="Hello there")
    equal(text, reply.text)


@check("tools: two calls, their results with the signature, an answer")
def tools() -> None:
    config = types.GenerateContentConfig(tools=TOOLS, automatic_function_calling=BY_HAND)
    for stream in (False, True):
        if stream:
            chunks = CLIENT.models.generate_content_stream(model="demo", contents=QUESTION, config=config)
            found = [part for chunk in chunks for part in parts(chunk)]
        else:
            found = parts(CLIENT.models.generate_content(model="demo", contents=QUESTION, config=config))
        calls = [part.function_call for part in found if part.function_call]
        equal([call.args for call in calls], [{"city": "Paris"}, {"city": "Tokyo"}])
        holds(any(part.thought_signature for part in found), found)
        results = [
            types.Part.from_function_response(name=call.name, response={"result": weather(call.args["city"])})
            for call in calls
        ]
        history: Any = [
            types.UserContent(QUESTION),
            types.Content(role="model", parts=found),
            types.Content(role="user", parts=results),
        ]
        answer = CLIENT.models.generate_content(model="demo", contents=history, config=config)
        holds("21 degrees in Paris" in answer.text and "Tokyo" in answer.text, answer)


@check("automatic function calling runs the functions")
def automatic() -> None:
    config = types.GenerateContentConfig(tools=[get_weather])
    answer = CLIENT.models.generate_content(model="demo", contents=QUESTION, config=config)
    holds("21 degrees in Paris" in answer.text, answer)


@check("a chat goes on after a stream")
def chat() -> None:
    for thinking in (None, THINKING):
        talk = CLIENT.chats.create(model="demo", config=types.GenerateContentConfig(thinking_config=thinking))
        first = "".join(chunk.text or "" for chunk in talk.send_message_stream("Hello there"))
        holds(first and talk.send_message("Go on").text, first)
        kept = [
            part.text or "" for content in talk.get_history(curated=True) for part in content.parts if not part.thought
        ]
        holds(first in "".join(kept), kept)


@check("an answer as a class")
def structured() -> None:
    for name in MODELS_OF_JSON:
        config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Weather)
        reply = CLIENT.models.generate_content(model=name, contents="What is the weather in Paris?", config=config)
        holds(isinstance(reply.parsed, Weather), reply)


@check("an image is accepted")
def picture() -> None:
    image = types.Part.from_bytes(data=base64.b64decode(DOT), mime_type="image/png")
    reply = CLIENT.models.generate_content(model="demo", contents=[image, "What is this?"])
    holds("image/png" in reply.text, reply)


@check("tokens are counted, and the models listed")
def counted() -> None:
    holds(CLIENT.models.count_tokens(model="demo", contents=QUESTION).total_tokens > 5)
    holds("models/demo" in [model.name for model in CLIENT.models.list()])
    equal(CLIENT.models.get(model="demo").display_name, "demo")


@check("the paths of Vertex AI")
def platform() -> None:
    client = genai.Client(vertexai=True, api_key=KEY, http_options=types.HttpOptions(base_url=PARLEY))
    holds(client.models.generate_content(model="demo", contents="Hello there").text)


@check("errors have their codes: unknown model, bad request, rate limit, failing server")
def failures() -> None:
    def ask(model: str, **config: Any) -> Any:
        return lambda: CLIENT.models.generate_content(
            model=model, contents="Hello", config=types.GenerateContentConfig(**config)
        )

    equal(raises(errors.ClientError, ask("nobody")).status, "NOT_FOUND")
    equal(raises(errors.ClientError, ask("demo", candidate_count=2)).code, 400)
    equal(raises(errors.ClientError, ask("busy")).code, 429)
    equal(raises(errors.ServerError, ask("failing")).status, "INTERNAL")


@check("an interrupted stream is an error")
def broken() -> None:
    for model in ("broken", "cut"):
        stream = CLIENT.models.generate_content_stream
        raises(errors.APIError, lambda model=model, stream=stream: list(stream(model=model, contents="Hello")))


run("google-genai")
