"""A client that openapi-python-client makes of openapi.json: complete, correct by its types, and it works."""

import json
import subprocess
import sys
import urllib.request
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from checks import PARLEY, check, equal, holds, run

FOLDER = Path(mkdtemp(prefix="generated"))
PACKAGE = FOLDER / "parley_client"
DOCUMENT = FOLDER / "openapi.json"
METHODS = ("get", "post", "delete")
QUESTION = {"role": "user", "content": "What is the weather in Paris?"}


def script(name: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", name, *arguments]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=240)


def operations() -> list[str]:
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return sorted(item[method]["operationId"] for item in paths.values() for method in METHODS if method in item)


def client() -> Any:
    from parley_client import Client

    return Client(base_url=PARLEY, httpx_args={"trust_env": False})


@check("openapi-python-client makes a module for every operation")
def _() -> None:
    with urllib.request.urlopen(f"{PARLEY}/openapi.json") as answer:
        DOCUMENT.write_bytes(answer.read())
    arguments = ("generate", "--path", str(DOCUMENT), "--output-path", str(PACKAGE), "--meta", "none")
    made = script("openapi_python_client", *arguments)
    holds(made.returncode == 0 and "Unable" not in made.stdout + made.stderr, made.stdout + made.stderr)
    found = [path.stem for path in (PACKAGE / "api").glob("*/*.py") if path.stem != "__init__"]
    equal(sorted(found), operations())
    sys.path.insert(0, str(FOLDER))


@check("mypy accepts the client")
def _() -> None:
    found = script("mypy", "-p", "parley_client")
    holds(found.returncode == 0, found.stdout[-500:])


@check("a whole reply of /v1/chat has typed messages, and goes back as history")
def _() -> None:
    from parley_client.api.chat import chat
    from parley_client.models import ChatReply, ChatRequest

    parameters = {"type": "object", "properties": {"city": {"type": "string"}}}
    functions = [{"name": "get_weather", "parameters": parameters}]
    first = ChatRequest.from_dict({"messages": [QUESTION], "functions": functions, "stream": False})
    reply = chat.sync(client=client(), body=first)
    holds(isinstance(reply, ChatReply), reply)
    thought, text, call = reply.messages
    holds(thought.reasoning_content and text.content, reply)
    equal((call.function_call.name, json.loads(call.function_call.arguments)), ("get_weather", {"city": "Paris"}))
    result = {"role": "function", "name": "get_weather", "content": "21 °C", "extra": call.extra.to_dict()}
    history = [QUESTION, *(message.to_dict() for message in reply.messages), result]
    second = ChatRequest.from_dict({"messages": history, "functions": functions, "stream": False})
    holds("21 °C" in chat.sync(client=client(), body=second).messages[-1].content, "no answer")


@check("every frame of a stream is one of the classes")
def _() -> None:
    from parley_client import models
    from parley_client.api.chat.chat import _get_kwargs

    kinds = {
        "response.started": models.ResponseStartedFrame,
        "message.started": models.MessageStartedFrame,
        "message.delta": models.MessageDeltaFrame,
        "message.completed": models.MessageCompletedFrame,
        "response.completed": models.ResponseCompletedFrame,
    }
    body = models.ChatRequest.from_dict({"messages": [QUESTION]})
    with client().get_httpx_client().stream(**_get_kwargs(body=body)) as response:
        lines = [line for line in response.read().decode().split("\n") if line.startswith("data: ")]
    data = [json.loads(line[6:]) for line in lines]
    for value in data:
        frame = kinds[value["type"]].from_dict(value)
        equal((frame.seq, frame.to_dict()), (value["seq"], value))
    equal({value["type"] for value in data}, set(kinds))


@check("chat completions, Messages and Responses return their classes")
def _() -> None:
    from parley_client import models
    from parley_client.api.anthropic import messages
    from parley_client.api.openai import completions
    from parley_client.api.responses import create_response

    asked = {"model": "demo", "messages": [QUESTION]}
    one = completions.sync(client=client(), body=models.CompletionRequest.from_dict(asked))
    holds(isinstance(one, models.ChatCompletion) and one.choices[0].message.content, one)
    two = messages.sync(client=client(), body=models.MessagesRequest.from_dict({**asked, "max_tokens": 500}))
    holds(isinstance(two, models.AnthropicReply) and two.content, two)
    request = models.ResponsesRequest.from_dict({"model": "demo", "input": "Hello"})
    three = create_response.sync(client=client(), body=request)
    holds(isinstance(three, models.ResponseObject) and three.output, three)


@check("models are listed, a conversation is converted, an error has its class")
def _() -> None:
    from parley_client import models
    from parley_client.api.chat import chat
    from parley_client.api.convert import convert
    from parley_client.api.models import list_models

    holds("demo" in [model.id for model in list_models.sync(client=client()).data], "no demo")
    conversion = models.Conversion.from_dict({"from": "openai", "to": "qwen", "messages": [QUESTION]})
    equal(convert.sync(client=client(), body=conversion).messages, [QUESTION])
    wrong = models.ChatRequest.from_dict({"model": "nobody", "messages": [QUESTION]})
    error = chat.sync(client=client(), body=wrong)
    equal((type(error), error.error.code), (models.ErrorBody, "unknown_model"))


run("openapi-python-client")
