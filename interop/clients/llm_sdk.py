"""Simon Willison's `llm`: the command line with a model of extra-openai-models.yaml."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from checks import KEY, QUESTION, V1, check, equal, holds, run

MODELS = f"""
- model_id: demo
  model_name: demo
  api_base: {V1}
  supports_tools: true
  supports_schema: true
"""
TOOL = 'def get_weather(city: str) -> str:\n    "The weather of a city"\n    return f"It is 21 degrees in {city}."\n'
HOME = tempfile.TemporaryDirectory()
(Path(HOME.name) / "extra-openai-models.yaml").write_text(MODELS, "utf-8")


def llm(*arguments: str) -> str:
    command = [sys.executable, "-m", "llm", "prompt", "-m", "demo", "--key", KEY, "--no-log", *arguments]
    done = subprocess.run(
        command, env={**os.environ, "LLM_USER_PATH": HOME.name}, capture_output=True, text=True, timeout=60, check=False
    )
    holds(done.returncode == 0, done.stderr)
    return done.stdout.strip()


@check("a reply, whole and streamed")
def replies() -> None:
    whole = llm("--no-stream", "Hello there")
    holds("demonstration model" in whole, whole)
    equal(llm("Hello there"), whole)


@check("a tool: two calls, their results, an answer")
def tools() -> None:
    for options in ((), ("--no-stream",)):
        answer = llm("--functions", TOOL, *options, QUESTION)
        holds("21 degrees in Paris" in answer and "Tokyo" in answer, answer)


@check("an answer that follows a schema")
def structured() -> None:
    equal(json.loads(llm("--schema", "city, degrees int", "What is the weather in Paris?"))["city"], "Paris")


run("llm")
