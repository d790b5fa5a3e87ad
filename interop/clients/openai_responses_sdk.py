"""OpenAI's SDK and Agents SDK with the Responses API: replies, streams, tools, stored responses, errors."""

from typing import Any

from agents import Agent, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from checks import KEY, QUESTION, V1, WEATHER, check, equal, holds, raises, run, weather
from openai import AsyncOpenAI, BadRequestError, NotFoundError, OpenAI

set_tracing_disabled(True)
CLIENT = OpenAI(base_url=V1, api_key=KEY, max_retries=0)
TOOL: Any = {"type": "function", "strict": True, **WEATHER["function"]}


@function_tool
def get_weather(city: str) -> str:
    """The weather of a city"""
    return weather(city)


def results(output: Any) -> list[Any]:
    calls = [item for item in output if item.type == "function_call"]
    equal(len(calls), 2)
    return [{"type": "function_call_output", "call_id": one.call_id, "output": "21 degrees"} for one in calls]


@check("a whole reply: reasoning, text and usage")
def whole() -> None:
    reply = CLIENT.responses.create(model="demo", input="Hello there")
    holds(reply.output_text and reply.status == "completed", reply)
    holds(reply.usage is not None and reply.usage.output_tokens > 0, reply.usage)


@check("a stream: the SDK's accumulator makes the final response of it")
def streamed() -> None:
    text = ""
    with CLIENT.responses.stream(model="demo", input="Hello there") as stream:
        for event in stream:
            text += event.delta if event.type == "response.output_text.delta" else ""
        equal(stream.get_final_response().output_text, text)
    holds(text)


@check("a tool without the store: the items go back as they came")
def stateless() -> None:
    given: list[Any] = [{"role": "user", "content": QUESTION}]
    include: Any = ["reasoning.encrypted_content"]
    options: Any = {"model": "demo", "tools": [TOOL], "store": False, "include": include}
    first = CLIENT.responses.create(input=given, **options)
    holds(any(item.type == "reasoning" and item.encrypted_content for item in first.output), first.output)
    items = [item.model_dump(exclude_none=True) for item in first.output]
    second = CLIENT.responses.create(input=[*given, *items, *results(first.output)], **options)
    holds("21 degrees" in second.output_text, second.output_text)


@check("`previous_response_id`: continued, or refused by a gateway that stores nothing")
def previous() -> str:
    first = CLIENT.responses.create(model="demo", input=QUESTION, tools=[TOOL])
    more: Any = {"model": "demo", "tools": [TOOL], "previous_response_id": first.id, "input": results(first.output)}
    if not first.store:
        equal(raises(BadRequestError, lambda: CLIENT.responses.create(**more)).code, "previous_response_not_found")
        return "refused"
    holds("21 degrees" in CLIENT.responses.create(**more).output_text)
    equal(CLIENT.responses.retrieve(first.id).output, first.output)
    equal([item.type for item in CLIENT.responses.input_items.list(first.id)], ["message"])
    CLIENT.responses.delete(first.id)
    raises(NotFoundError, lambda: CLIENT.responses.retrieve(first.id))
    return "continued"


@check("the tokens of a request")
def tokens() -> None:
    holds(CLIENT.responses.input_tokens.count(model="demo", input="Hello there").input_tokens > 0)


@check("an unknown model is the SDK's NotFoundError")
def unknown() -> None:
    error = raises(NotFoundError, lambda: CLIENT.responses.create(model="nothing", input="Hi"))
    equal(error.code, "model_not_found")


def helper() -> Agent[Any]:
    model = OpenAIResponsesModel("demo", AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0))
    return Agent(name="helper", instructions="Be brief.", model=model, tools=[get_weather])


@check("Agents SDK: two calls, their results, an answer")
async def agent() -> None:
    result = await Runner.run(helper(), QUESTION)
    holds("21 degrees in Paris" in result.final_output and "Tokyo" in result.final_output, result.final_output)


@check("Agents SDK, streamed: an answer")
async def agent_streamed() -> None:
    result = Runner.run_streamed(helper(), QUESTION)
    async for _ in result.stream_events():
        pass
    holds("Tokyo" in result.final_output, result.final_output)


run("openai")
