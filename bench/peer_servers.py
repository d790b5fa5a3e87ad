"""Other gateways that `bench/peers` installs: what each is, and how it is started. `bench/run` and `bench/faults`
compare this one with them.

Each has one process that serves, no log of requests and no retries, where it has a setting for these.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import GATEWAY_CORE, ROOT, Server, clean_environment, free_port, serve

FOLDER = ROOT / "build" / "peers"
"""Where they are installed, each in a folder of its own name."""

_LITELLM_CONFIG = """
model_list:
  - model_name: mock
    litellm_params: {{model: openai/mock, api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
    model_info: {{supports_native_streaming: true, supports_reasoning: true}}
  - model_name: "*"
    litellm_params: {{model: "openai/*", api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
litellm_settings: {{num_retries: 0, telemetry: false}}
"""
"""It takes a model that it does not know for one that neither streams nor reasons: at Messages and Responses it then
asks for a whole reply, cuts that into a stream itself, and refuses `effort`."""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
    title: str
    """Its name on a page."""
    kind: str
    """`pip` or `npm`, which installs it."""
    package: str
    """With its version."""
    program: str
    """What is there once it is installed, in its folder."""
    command: Callable[["Peer", Path, int, int], list[str]]
    """Of itself, an empty folder, its port and the model server's."""
    headers: Callable[[int], tuple[str, ...]] = lambda _: ()
    """What every request must have besides, of the model server's port."""
    overrides: tuple[tuple[str, str], ...] = ()
    """Versions of packages below it, where the newest that it asks for breaks it."""
    api: str = "/v1/chat/completions"
    """The path of its API that is compared."""
    model_prefix: str = ""
    """What stands before the name of the model server's model."""

    @property
    def version(self) -> str:
        return self.package.rpartition("==" if self.kind == "pip" else "@")[2]

    @property
    def path(self) -> Path:
        return FOLDER / self.name / self.program

    @property
    def installed(self) -> bool:
        return self.path.exists()


def find_version(said: str) -> str:
    """Return the newest version of what `npm view NAME version` or `pip index versions NAME` printed, whose first line
    is `VERSION` or `NAME (VERSION)`."""
    return said.partition("\n")[0].strip().rpartition("(")[2].rstrip(")")


def _litellm(peer: Peer, folder: Path, port: int, upstream: int) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM_CONFIG.format(upstream=upstream))
    return [str(peer.path), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


def _portkey(peer: Peer, _: Path, port: int, __: int) -> list[str]:
    return ["node", str(peer.path), "--headless", f"--port={port}"]


def _portkey_headers(upstream: int) -> tuple[str, ...]:
    target = f"x-portkey-custom-host: http://127.0.0.1:{upstream}/v1"
    return ("x-portkey-provider: openai", target, "Authorization: Bearer none")


def _claude_code_router(peer: Peer, folder: Path, port: int, upstream: int) -> list[str]:
    url = f"http://127.0.0.1:{upstream}/v1/chat/completions"
    provider = {"name": "mock", "api_base_url": url, "api_key": "none", "models": ["m"]}
    settings = {
        "HOST": "127.0.0.1",
        "PORT": port,
        "LOG": False,
        "Providers": [provider],
        "Router": {"default": "mock,m"},
    }
    config = folder / ".claude-code-router" / "config.json"
    config.parent.mkdir(exist_ok=True)
    config.write_text(json.dumps(settings))
    return ["node", str(peer.path), "start"]


def _smg(peer: Peer, _: Path, port: int, upstream: int) -> list[str]:
    worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
    return [str(peer.path), "launch", *worker, "--host", "127.0.0.1", "--port", str(port), *_router()]


def _vllm_router(peer: Peer, _: Path, port: int, upstream: int) -> list[str]:
    worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
    return [str(peer.path), *worker, "--host", "127.0.0.1", "--port", str(port), *_router()]


def _agentic_api(peer: Peer, folder: Path, port: int, upstream: int) -> list[str]:
    base = ["--llm-api-base", f"http://127.0.0.1:{upstream}", "--skip-llm-ready-check"]
    store = ["--db-url", f"sqlite://{folder}/agentic.db?mode=rwc"]
    return [str(peer.path), *base, *store, "--gateway-host", "127.0.0.1", "--gateway-port", str(port)]


def _router() -> list[str]:
    """Both open a second port, for metrics."""
    plain = ["--policy", "round_robin", "--log-level", "error", "--disable-retries"]
    return [*plain, "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]


PEERS = (
    Peer("litellm", "LiteLLM", "pip", "litellm[proxy]==1.108.7", "bin/litellm", _litellm),
    Peer(
        "portkey",
        "Portkey",
        "npm",
        "@portkey-ai/gateway@1.15.2",
        "node_modules/@portkey-ai/gateway/build/start-server.js",
        _portkey,
        _portkey_headers,
        (("@hono/node-server", "1.13.8"),),  # with 1.19 it answers streams with status 500
    ),
    Peer(
        "claude-code-router",
        "claude-code-router",
        "npm",
        "@musistudio/claude-code-router@2.0.0",
        "node_modules/@musistudio/claude-code-router/dist/cli.js",
        _claude_code_router,
        api="/v1/messages",  # 2.0 answers /v1/chat/completions with status 404
        model_prefix="mock,",
    ),
    Peer(
        *("agentic-api", "vLLM's Agentic API", "pip", "agentic-api==0.9.0", "bin/agentic-server", _agentic_api),
        api="/v1/responses",
    ),
    Peer("smg", "SMG", "pip", "smg==1.13.0", "bin/smg", _smg),
    Peer("vllm-router", "vllm-router", "pip", "vllm-router==0.1.17", "bin/vllm-router", _vllm_router),
)

MEASURED = tuple(peer for peer in PEERS if peer.api == "/v1/chat/completions")
"""Those whose speed `bench/run` measures: its clients send nothing else."""

_ENVIRONMENT = {
    "NODE_ENV": "production",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # It listens on loopback only, and a key would cost it time.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


@contextmanager
def running(peer: Peer, upstream: Server, folder: Path) -> Iterator[Server]:
    port = free_port()
    # With HOME in an empty folder it reads no settings of the user's.
    environment = clean_environment() | _ENVIRONMENT | {"HOME": str(folder)}
    command = peer.command(peer, folder, port, upstream.port)
    with serve(peer.name, command, port, GATEWAY_CORE, folder, environment) as server:
        yield server
