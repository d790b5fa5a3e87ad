"""The gateway's own output for the goldens of Messages and Responses, checked with the SDKs of the two APIs.

`PARLEY_GOLDENS` names a folder with `anthropic/` and `responses/`. Each has cases (`requests`, `replies`, `loops`, as
in `tests/goldens/messages`) and a program `validate.py`, which is given folders of such cases and checks what they
expect with the parameter types, event types, stream accumulator and error classes of the SDK. Here the cases expect
what the gateway wrote.
"""

import asyncio
import json
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.formats.responses import golden_cases
from tests.golden_gateway import GoldenGateway, Json
from tests.goldens import message_goldens
from tests.in_process_gateway import Answer

from interop.rooms import Client, NotInstalled, furnish
from interop.trying import Outcome

FOLDER = os.environ.get("PARLEY_GOLDENS", "")
CHECKS = {
    "requests": "requests: what is sent upstream has the SDK's types, and what is refused raises its errors",
    "replies": "replies: the SDK reads every stream and every whole reply, and raises for every failure",
    "loops": "what clients sent, turn by turn: what is sent upstream has the SDK's types",
}


@dataclass(frozen=True, slots=True)
class Face:
    """One of the two APIs."""

    path: str
    to_bytes: Callable[[Json], bytes]
    read_events: Callable[[Answer], list[Json]]
    prepare: Callable[[Json], Json]
    """Gives a case ids that the gateway accepts as its own."""
    stored_by_turn: Callable[[Json, Json], Json]


FACES = {
    "anthropic": Face(
        "/v1/messages",
        message_goldens.body,
        lambda answer: message_goldens.events(answer.body),
        lambda case: case,
        lambda script, body: {},
    ),
    "responses": Face(
        "/v1/responses",
        golden_cases.to_bytes,
        lambda answer: answer.frames,
        golden_cases.with_numbered_ids,
        golden_cases.stored_by_turn,
    ),
}


async def validate(client: Client) -> list[Outcome]:
    """One outcome for each kind of case."""
    try:
        await furnish(client)
    except NotInstalled as error:
        return [Outcome(client, "", "the packages can be installed", False, str(error))]
    source = Path(FOLDER) / client.goldens
    with tempfile.TemporaryDirectory() as folder:
        await asyncio.to_thread(write_cases, FACES[client.goldens], source, Path(folder))
        return [await _run(client, source / "validate.py", kind, Path(folder) / kind) for kind in CHECKS]


async def _run(client: Client, program: Path, kind: str, folder: Path) -> Outcome:
    python = str(client.room / "bin" / "python")
    running = await asyncio.create_subprocess_exec(
        python, str(program), str(folder), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await running.communicate()
    *found, summary = output.decode("utf-8", "replace").strip().splitlines() or ["no output"]
    detail = "; ".join([summary.partition(" with ")[0], *found])[:2000]
    return Outcome(client, summary.rpartition(" ")[2], CHECKS[kind], running.returncode == 0, detail)


def write_cases(face: Face, source: Path, target: Path) -> None:
    """Write each case of `source` to `target/KIND/KIND`, with the gateway's output as what it expects."""
    with GoldenGateway(face.to_bytes) as gateway:
        for kind, run in (("requests", _run_request), ("replies", _run_reply), ("loops", _run_loop)):
            folder = target / kind / kind
            folder.mkdir(parents=True)
            for path in sorted((source / kind).glob("*.json")):
                case = face.prepare(json.loads(path.read_text("utf-8")))
                (folder / path.name).write_text(json.dumps(run(face, gateway, case)), "utf-8")


def _run_request(face: Face, gateway: GoldenGateway, case: Json) -> Json:
    gateway.store(case.get("stored", {}))
    return {**case, "expect": _post(face, gateway, case["request"])}


def _run_reply(face: Face, gateway: GoldenGateway, case: Json) -> Json:
    gateway.answer_with(case["upstream"])
    whole, stream = (gateway.post(face.path, {**case["request"], "stream": value}) for value in (False, True))
    events = face.read_events(stream) if stream.status == 200 else _answer(stream)
    return {**case, "expect": {"whole": _equalize(_answer(whole)), "stream": _equalize(events)}}


def _run_loop(face: Face, gateway: GoldenGateway, case: Json) -> Json:
    return {**case, "requests": list(_run_turns(face, gateway, case))}


def _run_turns(face: Face, gateway: GoldenGateway, case: Json) -> Iterator[Json]:
    for number, turn in enumerate(case["requests"]):
        if "answer" in turn["expect"]:  # a count of tokens, for which no server is asked
            continue
        yield {**turn, "expect": _post(face, gateway, turn["body"])}
        if isinstance(case["script"], list) and number < len(case["script"]):
            gateway.store(face.stored_by_turn(case["script"][number], turn["body"]))


def _post(face: Face, gateway: GoldenGateway, body: Json) -> Json:
    gateway.answer_with(None)
    asked = len(gateway.sent)
    answer = gateway.post(face.path, body)
    if len(gateway.sent) > asked:
        return {"upstream": gateway.sent[-1]}
    return {"error": {**answer.json["error"], "status": answer.status}}


def _equalize(output: Any) -> Any:
    """The output with the same ids and times in every reply: a stream and a whole reply are compared, but are two."""
    text = re.sub(r"[0-9a-f]{32}", "0" * 32, json.dumps(output))
    made = {
        id_: f"call_{number:024x}" for number, id_ in enumerate(dict.fromkeys(re.findall(r"call_[0-9a-f]{24}", text)))
    }
    text = re.sub(r"call_[0-9a-f]{24}", lambda match: made[match[0]], text)
    return json.loads(re.sub(r'("(?:created|completed)_at": )\d+', r"\g<1>1760000000", text))


def _answer(answer: Answer) -> Json:
    """The response without `parley`, the gateway's own field of warnings: an SDK that puts a message together from a
    stream keeps only the fields that it knows, so the two would differ."""
    return {"status": answer.status, "body": {key: value for key, value in answer.json.items() if key != "parley"}}
