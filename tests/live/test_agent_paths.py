"""What holds for messages holds for every other way in that coding agents have: limits, rights and budgets, and what
happens when the gateway is reloaded, stopped or killed meanwhile."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.live.agent_paths import (
    MODEL_PATHS,
    PATHS,
    SECONDS,
    Answer,
    ModelServer,
    Send,
    configure,
    model_server,
    search_alone,
)
from tests.live.gateway import eventually
from tests.live.gateway_processes import GatewayProcesses, Process, run_gateways

HELD: dict[str, Send] = {**MODEL_PATHS, "search of Codex": search_alone("slow")}


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcesses]:
    with run_gateways(tmp_path_factory.mktemp("gateways")) as found:
        yield found


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture(scope="module")
def url(processes: GatewayProcesses, model: ModelServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a gateway that all tests share which do not end it."""
    return start(processes, model, tmp_path_factory.mktemp("state"))[1]


def start(processes: GatewayProcesses, model: ModelServer, folder: Path) -> tuple[Process, str]:
    process = processes.start(configure(model.url, folder), "drain_seconds = 20\n")
    asyncio.run(process.until_ready())
    return process, "http://{}:{}".format(*process.address)


@pytest.mark.parametrize("name", PATHS)
def test_a_caller_is_answered(name: str, url: str) -> None:
    answer = PATHS[name](url, "free")
    assert answer.status == 200 and "rror" not in without_nulls(answer.text)


def without_nulls(text: str) -> str:
    return text.replace('"error":null', "").replace('"error": null', "")


@pytest.mark.parametrize("name", PATHS)
def test_a_wrong_key_and_a_model_that_the_key_may_not_use_are_refused(name: str, url: str) -> None:
    if "socket" in name:
        with pytest.raises(Exception, match="HTTP 401"):
            PATHS[name](url, "wrong")
    else:
        assert PATHS[name](url, "wrong").status == 401
    refused = PATHS[name](url, "other")
    assert refused.status == 403 and "may not use the model" in refused.text


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    ("key", "status", "words"), [("once", 429, "per minute"), ("poor", 402, "has spent its limit")]
)
def test_limits_and_budgets_end_what_a_caller_may_ask(name: str, key: str, status: int, words: str, url: str) -> None:
    key = f"{key}-{list(PATHS).index(name)}"
    PATHS[name](url, key)
    answer = PATHS[name](url, key)
    assert answer.status == status and words in answer.text


def ask_all(url: str, model: ModelServer, pool: ThreadPoolExecutor) -> dict[str, Future[Answer]]:
    """Send a request in each way, and return when the model server holds all of them."""
    model.hold()
    asked = {name: pool.submit(send, url, "free") for name, send in HELD.items()}
    asyncio.run(eventually(lambda: model.held == len(MODEL_PATHS), SECONDS))
    return asked


def test_what_runs_at_a_reload_and_at_sigterm_ends_well(
    processes: GatewayProcesses, model: ModelServer, tmp_path: Path
) -> None:
    process, url = start(processes, model, tmp_path)
    with ThreadPoolExecutor(2 * len(HELD)) as pool:
        asked = ask_all(url, model, pool)
        process.reconfigure("[keys.free]", "[keys.renamed]\nendpoints = ['embeddings']")
        asyncio.run(eventually(lambda: PATHS["compaction"](url, "free").status == 403, SECONDS))
        assert {name: send(url, "free").status for name, send in PATHS.items()} == dict.fromkeys(PATHS, 403)
        stopping = pool.submit(asyncio.run, process.end())
        asyncio.run(eventually(lambda: not accepts(url), SECONDS))
        model.gate.set()
        answers = {name: one.result() for name, one in asked.items()}
        stopping.result()
    assert {name: answer.status for name, answer in answers.items()} == dict.fromkeys(HELD, 200)
    assert [name for name, answer in answers.items() if "rror" in without_nulls(answer.text)] == []


def test_what_is_killed_never_looks_whole_and_the_next_process_answers(
    processes: GatewayProcesses, model: ModelServer, tmp_path: Path
) -> None:
    process, url = start(processes, model, tmp_path)
    made = httpx.post(f"{url}/v1/conversations", json={}, headers={"authorization": "Bearer free"})
    with ThreadPoolExecutor(2 * len(HELD)) as pool:
        body = {"model": "m", "input": "lost", "conversation": made.json()["id"]}
        model.hold()
        lost = pool.submit(httpx.post, f"{url}/v1/responses", json=body, headers={"authorization": "Bearer free"})
        asyncio.run(eventually(lambda: model.held == 1, SECONDS))
        asked = ask_all(url, model, pool)
        process.kill()
        failed = {name: one.exception(SECONDS) for name, one in asked.items()}
        assert isinstance(lost.exception(SECONDS), httpx.TransportError)
        model.gate.set()
    assert [name for name, error in failed.items() if error is None] == []
    _, url = start(processes, model, tmp_path)
    assert {name: send(url, "free").status for name, send in PATHS.items()} == dict.fromkeys(PATHS, 200)
    items = httpx.get(f"{url}/v1/conversations/{made.json()['id']}/items", headers={"authorization": "Bearer free"})
    assert items.json()["data"] == []


def accepts(url: str) -> bool:
    try:
        return httpx.get(f"{url}/healthz").status_code == 200
    except httpx.TransportError:
        return False
