"""What is known of the servers that other gateways' configurations name: their addresses, and their kinds.

The addresses are those of docs/start/servers.md, and of LiteLLM's pages of providers (docs.litellm.ai/docs/providers).
"""

from typing import Literal
from urllib.parse import urlsplit

from msgspec import Struct

Api = Literal["chat_completions", "messages", "responses", "gemini"]


class Provider(Struct, frozen=True):
    """A provider by the prefix that LiteLLM gives its models."""

    base_url: str | None = None
    """None: the configuration says where it is."""
    kind: str = "openai_compatible"
    key_variable: str | None = None
    """Where LiteLLM finds the key if the configuration has none."""
    api: Api = "chat_completions"
    path: str = ""
    """What is added to an address of the configuration that does not end with it."""


CLOUDFLARE_PATH = "/ai/v1"
"""How an address of Workers AI ends (developers.cloudflare.com/workers-ai/configuration/open-ai-compatibility)."""
PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", "openai", "OPENAI_API_KEY"),
    "text-completion-openai": Provider("https://api.openai.com/v1", "openai", "OPENAI_API_KEY"),
    "anthropic": Provider("https://api.anthropic.com/v1", "anthropic", "ANTHROPIC_API_KEY", "messages"),
    "azure": Provider(None, "openai", "AZURE_API_KEY", path="/openai/v1"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "gemini", "GEMINI_API_KEY"),
    "deepseek": Provider("https://api.deepseek.com/v1", "deepseek", "DEEPSEEK_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "groq", "GROQ_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "mistral", "MISTRAL_API_KEY"),
    "xai": Provider("https://api.x.ai/v1", "xai", "XAI_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "openrouter", "OPENROUTER_API_KEY"),
    "dashscope": Provider("https://dashscope-intl.aliyuncs.com/compatible-mode/v1", "dashscope", "DASHSCOPE_API_KEY"),
    "moonshot": Provider("https://api.moonshot.ai/v1", "moonshot", "MOONSHOT_API_KEY"),
    "zai": Provider("https://api.z.ai/api/paas/v4", "zhipu", "ZAI_API_KEY"),
    "minimax": Provider("https://api.minimax.io/v1", "minimax", "MINIMAX_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1", "ollama", path="/v1"),
    "ollama_chat": Provider("http://127.0.0.1:11434/v1", "ollama", path="/v1"),
    "lm_studio": Provider("http://127.0.0.1:1234/v1", "lmstudio", "LM_STUDIO_API_KEY"),
    "hosted_vllm": Provider(None, "vllm"),
    "llamafile": Provider("http://127.0.0.1:8080/v1", "llamacpp"),
    "openai_like": Provider(),
    "custom_openai": Provider(),
    "litellm_proxy": Provider(),
    "together_ai": Provider("https://api.together.xyz/v1", key_variable="TOGETHERAI_API_KEY"),
    "fireworks_ai": Provider("https://api.fireworks.ai/inference/v1", key_variable="FIREWORKS_API_KEY"),
    "perplexity": Provider("https://api.perplexity.ai", key_variable="PERPLEXITYAI_API_KEY"),
    "cerebras": Provider("https://api.cerebras.ai/v1", key_variable="CEREBRAS_API_KEY"),
    "nvidia_nim": Provider("https://integrate.api.nvidia.com/v1", key_variable="NVIDIA_NIM_API_KEY"),
    "deepinfra": Provider("https://api.deepinfra.com/v1/openai", key_variable="DEEPINFRA_API_KEY"),
    "sambanova": Provider("https://api.sambanova.ai/v1", key_variable="SAMBANOVA_API_KEY"),
    "novita": Provider("https://api.novita.ai/v3/openai", key_variable="NOVITA_API_KEY"),
    "cohere": Provider("https://api.cohere.ai/compatibility/v1", key_variable="COHERE_API_KEY"),
    "cohere_chat": Provider("https://api.cohere.ai/compatibility/v1", key_variable="COHERE_API_KEY"),
    "volcengine": Provider("https://ark.cn-beijing.volces.com/api/v3", key_variable="VOLCENGINE_API_KEY"),
    "voyage": Provider("https://api.voyageai.com/v1", key_variable="VOYAGE_API_KEY"),
    "cloudflare": Provider(
        f"https://api.cloudflare.com/client/v4/accounts/${{CLOUDFLARE_ACCOUNT_ID}}{CLOUDFLARE_PATH}",
        key_variable="CLOUDFLARE_API_KEY",
        path=CLOUDFLARE_PATH,
    ),
}

_KINDS_OF_HOSTS = {
    "api.openai.com": "openai",
    "generativelanguage.googleapis.com": "gemini",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.mistral.ai": "mistral",
    "api.x.ai": "xai",
    "openrouter.ai": "openrouter",
    "dashscope.aliyuncs.com": "dashscope",
    "dashscope-intl.aliyuncs.com": "dashscope",
    "api.moonshot.ai": "moonshot",
    "api.moonshot.cn": "moonshot",
    "api.z.ai": "zhipu",
    "open.bigmodel.cn": "zhipu",
    "api.minimax.io": "minimax",
    "api.siliconflow.cn": "siliconflow",
    "api.siliconflow.com": "siliconflow",
}
_KINDS_OF_PORTS = {11434: "ollama", 1234: "lmstudio"}
"""The ports that these servers listen on by default."""


GOOGLE_PATH = "/publishers/google"
"""How an address of Vertex AI ends, to which `/models/NAME` is added."""


def find_kind(base_url: str, api: Api = "chat_completions") -> str:
    """Return the kind of the server at an address; one that is not known is any server of its API."""
    try:
        host, port = urlsplit(base_url).hostname or "", urlsplit(base_url).port
    except ValueError:
        host, port = "", None
    if api == "messages":
        return "anthropic" if host == "api.anthropic.com" else "anthropic_compatible"
    if api == "gemini":
        return "vertex" if base_url.endswith(GOOGLE_PATH) else "gemini"
    return _KINDS_OF_HOSTS.get(host) or _KINDS_OF_PORTS.get(port or 0) or "openai_compatible"


def name_server(base_url: str) -> str:
    """Return a name for the server at an address: its host, and its port unless it is the usual one."""
    try:
        parts = urlsplit(base_url)
        port = f"-{parts.port}" if parts.port else ""
    except ValueError:
        return "server"
    host = (parts.hostname or "server").removeprefix("api.").removesuffix(".com")
    return f"{host}{port}"
