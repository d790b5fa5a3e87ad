"""Other gateways that `bench/peers` installs and `bench/run` measures: what each is, and how it is started.

Each has one process that serves, no log of requests and no retries, where it has a setting for these.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from processes import GATEWAY_CORE, ROOT, Server, clean_environment, free_port, serve

FOLDER = ROOT / "build" / "peers"
"""Where they are installed, each in a folder of its own name."""

_LITELLM_CONFIG = """
model_list:
  - model_name: "*"
    litellm_params: {{model: "openai/*", api_base: "http://127.0.0.1:{upstream}/v1", api_key: none}}
litellm_settings: {{num_retries: 0, telemetry: false}}
"""


@dataclass(frozen=True, slots=True)
class Peer:
    name: str
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

    @property
    def path(self) -> Path:
        return FOLDER / self.name / self.program

    @property
    def installed(self) -> bool:
        return self.path.exists()


def _litellm(peer: Peer, folder: Path, port: int, upstream: int) -> list[str]:
    config = folder / "litellm.yaml"
    config.write_text(_LITELLM_CONFIG.format(upstream=upstream))
    return [str(peer.path), "--config", str(config), "--host", "127.0.0.1", "--port", str(port), "--num_workers", "1"]


def _portkey(peer: Peer, _: Path, port: int, __: int) -> list[str]:
    return ["node", str(peer.path), "--headless", f"--port={port}"]


def _portkey_headers(upstream: int) -> tuple[str, ...]:
    target = f"x-portkey-custom-host: http://127.0.0.1:{upstream}/v1"
    return ("x-portkey-provider: openai", target, "Authorization: Bearer none")


def _smg(peer: Peer, _: Path, port: int, upstream: int) -> list[str]:
    worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
    return [str(peer.path), "launch", *worker, "--host", "127.0.0.1", "--port", str(port), *_router()]


def _vllm_router(peer: Peer, _: Path, port: int, upstream: int) -> list[str]:
    worker = ["--worker-urls", f"http://127.0.0.1:{upstream}"]
    return [str(peer.path), *worker, "--host", "127.0.0.1", "--port", str(port), *_router()]


def _router() -> list[str]:
    """Both open a second port, for metrics."""
    plain = ["--policy", "round_robin", "--log-level", "error", "--disable-retries"]
    return [*plain, "--prometheus-host", "127.0.0.1", "--prometheus-port", str(free_port())]


PEERS = (
    Peer("litellm", "pip", "litellm[proxy]==1.106.2", "bin/litellm", _litellm),
    Peer(
        "portkey",
        "npm",
        "@portkey-ai/gateway@1.15.2",
        "node_modules/@portkey-ai/gateway/build/start-server.js",
        _portkey,
        _portkey_headers,
        (("@hono/node-server", "1.13.8"),),  # with 1.19 it answers streams with status 500
    ),
    Peer("smg", "pip", "smg==1.13.0", "bin/smg", _smg),
    Peer("vllm-router", "pip", "vllm-router==0.1.17", "bin/vllm-router", _vllm_router),
)


_ENVIRONMENT = {
    "NODE_ENV": "production",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    # It listens on loopback only, and a key would cost it time.
    "LITELLM_DANGEROUSLY_PERMIT_WEAK_OR_UNSET_MASTER_KEY": "true",
}


@contextmanager
def running(peer: Peer, upstream: Server, folder: Path) -> Iterator[Server]:
    port = free_port()
    environment = clean_environment() | _ENVIRONMENT
    command = peer.command(peer, folder, port, upstream.port)
    with serve(peer.name, command, port, GATEWAY_CORE, folder, environment) as server:
        yield server
