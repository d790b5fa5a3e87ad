"""A `config.yaml` of LiteLLM becomes settings of Parley, or a note."""

from typing import Any

from tests.each_case import each_case
from tests.importers.imported import litellm, one

OPENAI = {"base_url": "https://api.openai.com/v1", "kind": "openai", "api_key": "${OPENAI_API_KEY}"}


@each_case(
    ("params", "upstream", "name"),
    [
        ("model: openai/gpt-5", OPENAI, "gpt-5"),
        ("model: gpt-5", OPENAI, "gpt-5"),
        (
            "model: claude-sonnet-5",
            {
                "base_url": "https://api.anthropic.com/v1",
                "api": "messages",
                "kind": "anthropic",
                "api_key": "${ANTHROPIC_API_KEY}",
            },
            "claude-sonnet-5",
        ),
        (
            "model: anthropic/glm-5, api_base: 'https://api.z.ai/api/anthropic/v1/messages', api_key: os.environ/Z",
            {
                "base_url": "https://api.z.ai/api/anthropic",
                "api": "messages",
                "kind": "anthropic_compatible",
                "api_key": "${Z}",
            },
            "glm-5",
        ),
        ("model: openai/q, api_base: 'http://h:11434/v1/'", {"base_url": "http://h:11434/v1", "kind": "ollama"}, "q"),
        ("model: openai/q, api_base: 'http://h/v1/chat/completions'", {"base_url": "http://h/v1"}, "q"),
        ("model: Qwen/Qwen3, base_url: 'http://h/v1'", {"base_url": "http://h/v1"}, "Qwen/Qwen3"),
        ("model: ollama/q, api_base: 'http://h:1'", {"base_url": "http://h:1/v1", "kind": "ollama"}, "q"),
        ("model: ollama_chat/q", {"base_url": "http://127.0.0.1:11434/v1", "kind": "ollama"}, "q"),
        ("model: hosted_vllm/a/b, api_base: 'http://h/v1'", {"base_url": "http://h/v1", "kind": "vllm"}, "a/b"),
        (
            "model: azure/my-gpt, api_base: 'https://r.openai.azure.com/openai/deployments/x', api_version: 2024-02-01",
            {
                "base_url": "https://r.openai.azure.com/openai/v1",
                "kind": "openai",
                "headers": {"api-key": "${AZURE_API_KEY}"},
            },
            "my-gpt",
        ),
        (
            "model: fireworks_ai/q",
            {"base_url": "https://api.fireworks.ai/inference/v1", "api_key": "${FIREWORKS_API_KEY}"},
            "accounts/fireworks/models/q",
        ),
        ("model: openai/responses/gpt-5", {**OPENAI, "api": "responses"}, "gpt-5"),
        ("model: q, custom_llm_provider: openai", OPENAI, "q"),
        (
            "model: gemini/g, api_key: k, api_base: 'https://aiplatform.googleapis.com/v1/publishers/google'",
            {
                "base_url": "https://aiplatform.googleapis.com/v1/publishers/google",
                "api": "gemini",
                "kind": "vertex",
                "api_key": "k",
            },
            "g",
        ),
        (
            "model: gemini/g, api_base: 'http://h/v1beta/models/'",
            {"base_url": "http://h/v1beta", "api": "gemini", "kind": "gemini"},
            "g",
        ),
        (
            "model: gemini/g, api_base: 'http://h/v1beta/openai'",
            {"base_url": "http://h/v1beta/openai", "kind": "gemini"},
            "g",
        ),
        (
            "model: vertex_ai/gemini-3-pro, vertex_project: os.environ/P, vertex_location: global",
            {
                "base_url": "https://aiplatform.googleapis.com/v1/projects/${P}/locations/global/publishers/google",
                "api": "gemini",
                "kind": "vertex",
                "api_key": "${VERTEX_TOKEN}",
                "auth": "bearer",
            },
            "gemini-3-pro",
        ),
        (
            "model: gemini-3-pro",
            {
                "base_url": "https://us-central1-aiplatform.googleapis.com/v1/projects/${VERTEXAI_PROJECT}"
                "/locations/us-central1/publishers/google",
                "api": "gemini",
                "kind": "vertex",
                "api_key": "${VERTEX_TOKEN}",
                "auth": "bearer",
            },
            "gemini-3-pro",
        ),
        (
            "model: 'cloudflare/@cf/openai/gpt-oss-120b'",
            {
                "base_url": "https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1",
                "api_key": "${CLOUDFLARE_API_KEY}",
            },
            "@cf/openai/gpt-oss-120b",
        ),
        (
            "model: cloudflare/q, api_base: 'https://api.cloudflare.com/client/v4/accounts/a/ai/run/', api_key: k",
            {"base_url": "https://api.cloudflare.com/client/v4/accounts/a/ai/v1", "api_key": "k"},
            "q",
        ),
        ("model: openai/q, custom_llm_provider: openai", OPENAI, "q"),
        (
            "model: openai/q, organization: o, extra_headers: {x-team: os.environ/T}",
            {**OPENAI, "headers": {"x-team": "${T}", "OpenAI-Organization": "o"}},
            "q",
        ),
        (
            "model: openai/q, timeout: 60, stream_timeout: '5'",
            {**OPENAI, "first_token_seconds": 5.0, "whole_reply_seconds": 60.0},
            "q",
        ),
    ],
)
def test_a_deployment_is_a_model_at_an_upstream(params: str, upstream: dict[str, Any], name: str) -> None:
    tree, notes = one(params)
    assert ([*tree["upstreams"].values()], notes) == ([upstream], [])
    assert tree["models"] == {"m": {"upstreams": [*tree["upstreams"]], "name": name}}


@each_case(
    ("params", "info", "note"),
    [
        ("model: bedrock/x", "{}", "model_list[0].litellm_params.model: the provider 'bedrock' has an API of its own"),
        ("model: github/gpt-4o", "{}", "model_list[0].litellm_params.model: the provider 'github' has ended"),
        ("model: vertex_ai/claude-sonnet-5", "{}", "model_list[0].litellm_params.model: of Vertex AI, only models of"),
        ("model: gemini-embedding-001", "{}", "model_list[0].litellm_params.model: Google's own API has no path for"),
        (
            "model: os.environ/MODEL, api_base: 'http://h'",
            "{}",
            "model_list[0].litellm_params.model: 'os.environ/MODEL'",
        ),
        ("model: nobody/x", "{}", "model_list[0].litellm_params.model: the provider of 'nobody/x' is not known"),
        ("model: hosted_vllm/x", "{}", "model_list[0].litellm_params.api_base: is needed"),
        ("model: 'openai/*'", "{}", "model_list[0].litellm_params.model: the pattern '*' is not taken"),
        ("model: true", "{}", "model_list[0].litellm_params.model: is not a text"),
        ("api_base: 'http://h/v1'", "{}", "model_list[0]: has no model_name, or no model"),
    ],
)
def test_what_cannot_be_a_model_is_noted(params: str, info: str, note: str) -> None:
    tree, notes = one(params, info)
    assert "models" not in tree
    assert any(line.startswith(note) for line in notes), notes


@each_case(
    ("params", "info", "row"),
    [
        ("model: openai/m, temperature: 0.2, max_tokens: 9", "{}", {"defaults": {"temperature": 0.2, "max_tokens": 9}}),
        (
            "model: openai/m, thinking: {type: enabled, budget_tokens: 4000}",
            "{}",
            {"defaults": {"enable_thinking": True, "thinking_budget": 4000}},
        ),
        ("model: openai/m, thinking: {type: disabled}", "{}", {"defaults": {"enable_thinking": False}}),
        ("model: openai/m, thinking: {type: adaptive}, context_window: 9", "{max_tokens: 8}", {"context_window": 9}),
        ("model: openai/m, max_retries: 20", "{}", {"max_retries": 10}),
        ("model: openai/m, num_retries: 0, max_retries: 3", "{}", {}),
        ("model: openai/m", "{mode: chat, max_input_tokens: 128000}", {"context_window": 128000}),
        ("model: openai/m", "{mode: embedding, id: x}", {"endpoints": ["embeddings"]}),
        ("model: openai/m", "{supports_function_calling: false}", {"profile": {"native_tools": False}}),
        (
            "model: openai/m, additional_drop_params: [temperature, min_p]",
            "{supports_function_calling: false}",
            {
                "profile": {
                    "native_tools": False,
                    "lacks": ["top_k", "min_p", "repetition_penalty", "temperature"],
                }
            },
        ),
        ("model: openai/m, additional_drop_params: [min_p]", "{}", {}),
        (
            "model: openai/m, input_cost_per_second: 0.001",
            "{mode: audio_transcription}",
            {"endpoints": ["audio"], "price": {"input": 0.0, "output": 0.0, "per_minute": 0.06}},
        ),
        (
            "model: openai/m, input_cost_per_token: 0.0000025",
            "{output_cost_per_token: 1.0e-05, cache_read_input_token_cost: 2.5e-07}",
            {"price": {"input": 2.5, "output": 10.0, "cached_input": 0.25}},
        ),
        ("model: openai/m", "{output_cost_per_token: 1.0e-06}", {"price": {"input": 0.0, "output": 1.0}}),
        ("model: openai/m, input_cost_per_token: much", "{}", {}),
        (
            "model: openai/m",
            "{mode: image_generation, input_cost_per_image: 0.04}",
            {"endpoints": ["images"], "price": {"input": 0.0, "output": 0.0, "per_image": 0.04}},
        ),
        (
            "model: openai/m, rpm: 60, tpm: 1000, max_parallel_requests: 3",
            "{}",
            {"limits": {"requests_per_minute": 60, "tokens_per_minute": 1000, "concurrent_streams": 3}},
        ),
        ("model: openai/m, order: 2, weight: 3", "{}", {"upstreams": [{"name": "openai", "priority": 2}]}),
        ("model: openai/m, weight: 0", "{}", {"upstreams": [{"name": "openai", "priority": 100}]}),
    ],
)
def test_what_a_deployment_says_of_its_model_is_kept(params: str, info: str, row: dict[str, Any]) -> None:
    tree, notes = one(params, info)
    assert (tree["models"]["m"], notes) == ({"upstreams": ["openai"], **row}, [])


@each_case(
    ("params", "info", "note"),
    [
        ("model: openai/m, rpm: often", "{}", "model_list[0].litellm_params.rpm: is not a number above 0"),
        (
            "model: openai/m, tags: [a]",
            "{}",
            "model_list[0].litellm_params.tags: use rules of a virtual model, or keys",
        ),
        ("model: openai/m", "{mode: realtime}", "model_list[0].model_info.mode: 'realtime' is not taken"),
        ("model: openai/bge-m3", "{}", "model_list[0].model_info.mode: is missing: 'embeddings' was guessed"),
        ("model: openai/flux", "{mode: image}", "model_list[0].model_info.mode: 'image' is not taken: 'images' was"),
        ("model: openai/m, ssl_verify: false", "{}", "model_list[0].litellm_params.ssl_verify: certificates are"),
        (
            "model: openai/m, additional_drop_params: [thinking]",
            "{}",
            "model_list[0].litellm_params.additional_drop_params: 'thinking' cannot be left out for one model",
        ),
        ("model: openai/m", "{input_cost_per_second: 0.001}", "model_list[0].model_info.input_cost_per_second: only"),
        ("model: openai/m", "{tier: free}", "model_list[0].model_info.tier: has no counterpart that is known"),
        ("model: openai/m", "3", "model_list[0].model_info: is not a table"),
    ],
)
def test_what_a_model_has_no_setting_for_is_noted(params: str, info: str, note: str) -> None:
    tree, notes = one(params, info)
    assert "m" in tree["models"]
    assert len(notes) == 1 and notes[0].startswith(note)


def deployments(*params: str, rest: str = "") -> dict[str, Any]:
    rows = "".join(f"  - {{model_name: m, litellm_params: {{{one}}}}}\n" for one in params)
    models: dict[str, Any] = litellm(f"model_list:\n{rows}{rest}")[0]["models"]
    return models


def test_equal_deployments_share_the_load_by_weight_or_by_their_limits() -> None:
    a, b = "model: openai/m, api_base: 'http://a/v1'", "model: openai/m, api_base: 'http://b/v1'"
    assert deployments(a, b) == {"m": {"upstreams": ["a", "b"]}}
    weighted = {"m": {"upstreams": [{"name": "a", "weight": 3.0}, {"name": "b", "weight": 1.0}]}}
    assert deployments(f"{a}, weight: 6", f"{b}, weight: 2") == weighted
    assert deployments(a, a, f"{b}", rest="router_settings: {routing_strategy: simple-shuffle}") == {
        "m": {"upstreams": [{"name": "a", "weight": 2.0}, {"name": "b", "weight": 1.0}], "strategy": "weighted"}
    }
    assert deployments(f"{a}, rpm: 900", f"{b}, rpm: 300")["m"] == {
        **weighted["m"],
        "limits": {"requests_per_minute": 1200},
    }
    last = [{"name": "b", "priority": 100}]
    assert deployments(f"{a}, weight: 5", f"{b}, weight: 0") == {"m": {"upstreams": ["a", *last]}}
    twice = deployments(f"{a}, weight: 0", f"{b}, weight: 0", f"{a}, weight: 1")["m"]["upstreams"]
    assert [(row["name"], row.get("priority", 1)) for row in twice] == [("a", 1), ("b", 100)]
    for first, second in ((1, 2), (0, 1)):
        models = deployments(f"{a}, order: {first}", f"{b}, order: {second}")
        assert models == {"m": {"upstreams": ["a", {"name": "b", "priority": 2}]}}


def test_deployments_with_other_names_at_their_servers_are_fallbacks() -> None:
    tree, notes = litellm("""
        model_list:
          - {model_name: 'claude-*', litellm_params: {model: openai/b, order: 2}}
          - {model_name: 'claude-*', litellm_params: {model: openai/a}}
          - {model_name: claude-2, litellm_params: {model: openai/c}}
    """)
    assert tree["models"] == {
        "claude": {"upstreams": ["openai"], "name": "a", "aliases": ["claude-*"], "fallbacks": ["claude-2-2"]},
        "claude-2-2": {"upstreams": [{"name": "openai", "priority": 2}], "name": "b"},
        "claude-2": {"upstreams": ["openai"], "name": "c"},
    }
    assert notes == [
        "model_list: claude-*: its deployments have other names at their servers: they are the fallbacks claude-2-2"
    ]


def test_a_pattern_of_names_at_the_server_is_one_of_aliases() -> None:
    tree, notes = litellm("""
        model_list:
          - {model_name: 'openai/*', litellm_params: {model: 'openai/*'}}
          - {model_name: 'claude-*', litellm_params: {model: 'anthropic/claude-*'}}
          - {model_name: a, litellm_params: {model: openai/a}}
        router_settings: {fallbacks: [{'openai/*': [a]}, {a: ['claude-*']}]}
    """)
    assert tree["models"] == {
        "openai": {"upstreams": ["openai"], "name": "*", "aliases": ["openai/*"], "fallbacks": ["a"]},
        "claude": {"upstreams": ["anthropic"], "name": "claude-*", "aliases": ["claude-*"]},
        "a": {"upstreams": ["openai"]},
    }
    assert notes == ["router_settings.fallbacks[1].a: the fallback 'claude-*' is a pattern: name one of its models"]


def test_the_pattern_for_all_names_is_the_passthrough() -> None:
    tree, notes = litellm("""
        model_list:
          - {model_name: '*', litellm_params: {model: '*'}}
          - {model_name: '*', litellm_params: {model: 'groq/*'}}
    """)
    assert (tree["passthrough"], "models" in tree) == ("openai", False)
    assert [note.partition(": ")[::2] for note in notes] == [
        (
            "model_list[0].litellm_params.model",
            "every name goes to OpenAI, not to the provider that it begins with: write a model for each other one,"
            " such as model_name 'anthropic/*' with model 'anthropic/*'",
        ),
        ("model_list[1].litellm_params.model", "only one server can get all other names of models"),
    ]
    assert one("model: '*', api_base: 'http://h/v1'", rest="")[1] == [
        "model_list[0].litellm_params.model: the pattern '*' is not taken: list the models of 'm'"
    ]


def test_a_file_without_models_says_where_they_may_be() -> None:
    tree, notes = litellm("model_list: []\ngeneral_settings: {store_model_in_db: true}")
    assert tree == {}
    assert notes[0] == "model_list: is empty: models that LiteLLM keeps in its database are not read"


TWO = """
model_list:
  - {model_name: a, litellm_params: {model: openai/a}}
  - {model_name: b, litellm_params: {model: openai/b}}
  - {model_name: e, litellm_params: {model: openai/e}, model_info: {mode: embedding}}
"""


@each_case(
    ("rest", "row", "notes"),
    [
        ("router_settings: {fallbacks: [{a: [b]}]}", {"fallbacks": ["b"]}, []),
        ("litellm_settings: {fallbacks: [{a: b}, {a: [b, a]}]}", {"fallbacks": ["b"]}, []),
        ("litellm_settings: {context_window_fallbacks: [{a: [b]}]}", {"fallbacks_on_context_length": ["b"]}, []),
        ("router_settings: {content_policy_fallbacks: [{a: [b]}]}", {"fallbacks_on_content_filter": ["b"]}, []),
        ("router_settings: {num_retries: 2}", {"max_retries": 2}, []),
        ("litellm_settings: {drop_params: true, num_retries: 3}", {"max_retries": 3}, []),
        ("router_settings: {num_retries: 0}\nlitellm_settings: {num_retries: 3}", {}, []),
        ("router_settings: {model_group_alias: {x: a, y: {model: a, hidden: true}}}", {"aliases": ["x", "y"]}, []),
        (
            "router_settings: {model_group_alias: {x: z, b: a}}",
            {},
            [
                "router_settings.model_group_alias.x: there is no model 'z'",
                "router_settings.model_group_alias.b: is the name of a model too",
            ],
        ),
        (
            "router_settings: {fallbacks: [{z: [a]}, {a: [z]}, {a: [e]}]}",
            {},
            [
                "router_settings.fallbacks[0].z: the model was not taken",
                "router_settings.fallbacks[1].a: the fallback 'z' was not taken",
                "router_settings.fallbacks[2].a: the fallback 'e' serves other endpoints",
            ],
        ),
        ("router_settings: {fallbacks: 3}", {}, ["router_settings.fallbacks: is not a list"]),
        (
            "router_settings: {routing_strategy: usage-based-routing, cooldown_time: 5}",
            {},
            [
                "router_settings.routing_strategy: 'usage-based-routing' has no counterpart: the default, session or"
                " least_busy, is used",
                "router_settings.cooldown_time: a circuit breaker needs no setting",
            ],
        ),
    ],
)
def test_what_the_router_does_is_said_of_the_models(rest: str, row: dict[str, Any], notes: list[str]) -> None:
    tree, found = litellm(TWO + rest)
    shared = {"max_retries": row["max_retries"]} if "max_retries" in row else {}
    assert tree["models"]["a"] == {"upstreams": ["openai"], **row}
    assert tree["models"]["b"] == {"upstreams": ["openai"], **shared}
    assert found == notes


def test_the_default_model_is_one_that_was_taken() -> None:
    assert litellm(TWO + "router_settings: {default_model: b}")[0]["default_model"] == "b"
    assert "default_model" not in litellm(TWO + "router_settings: {default_model: z}")[0]


def test_default_fallbacks_are_those_of_every_model_without_its_own() -> None:
    for rest in (
        "litellm_settings: {fallbacks: [{b: [a]}], default_fallbacks: [b, e]}",
        "router_settings: {fallbacks: [{b: [a]}, {'*': [b, e]}]}",
    ):
        tree, notes = litellm(TWO + rest)
        assert [tree["models"][name].get("fallbacks") for name in ("a", "b", "e")] == [["b"], ["a"], None]
        assert len(notes) == 2 and all("serves other endpoints" in note for note in notes)


def test_the_time_of_all_requests_is_that_of_servers_without_their_own() -> None:
    both = "router_settings: {timeout: 30}\nlitellm_settings: {request_timeout: 9}"
    assert one("model: openai/m", rest=both)[1] == [
        "litellm_settings.request_timeout: router_settings.timeout counts before it"
    ]
    for rest in ("router_settings: {timeout: 30}", "litellm_settings: {request_timeout: 30}", both):
        (row,) = one("model: openai/m", rest=rest)[0]["upstreams"].values()
        assert (row["first_token_seconds"], row["whole_reply_seconds"]) == (30.0, 30.0)
    tree, notes = one("model: openai/m", rest="router_settings: {timeout: 35, stream_timeout: 90}")
    (row,) = tree["upstreams"].values()
    assert (row["first_token_seconds"], row["whole_reply_seconds"], notes) == (90.0, 35.0, [])


@each_case(
    ("rest", "notes"),
    [
        (
            "litellm_settings: {cooldown_time: 30}\ngeneral_settings: {max_budget: 2.0}",
            [
                "litellm_settings.cooldown_time: a circuit breaker needs no setting",
                "general_settings.max_budget: set spend_per_month of [limits]",
            ],
        ),
        (
            "litellm_settings: {cache: true, cache_params: {type: s3, s3_bucket_name: b}}",
            [
                "litellm_settings.cache_params.type: 's3' has no counterpart: cache.url may be a file, Redis or memory",
                "litellm_settings.cache_params.s3_bucket_name: has no counterpart that is known",
            ],
        ),
        (
            "litellm_settings: {callbacks: [prometheus], success_callback: langsmith, max_budget: 9}",
            [
                "litellm_settings.callbacks: 'prometheus': /metrics is always there",
                "litellm_settings.success_callback: 'langsmith': there are no callbacks",
                "litellm_settings.max_budget: set spend_per_month of [limits]",
            ],
        ),
        (
            "environment_variables: {A: b}\ngeneral_settings: {database_url: x}\ninclude: [a.yaml]\nodd: 3",
            [
                "general_settings.database_url: keys, teams and budgets of it are not read: docs/guides/from-litellm.md"
                " says how keys move",
                "environment_variables.A: set it in the environment of the gateway",
                "include: import each file by itself",
                "odd: has no counterpart that is known",
            ],
        ),
    ],
)
def test_what_has_no_setting_is_noted_with_what_to_do(rest: str, notes: list[str]) -> None:
    assert one("model: openai/m", rest=rest)[1] == notes


@each_case(
    "rest",
    [
        "mcp_servers: {s: {url: os.environ/A}}",
        "litellm_settings: {cache: true, cache_params: {type: redis, url: os.environ/A}}",
        "litellm_settings: {cache: true, cache_params: {type: redis, host: os.environ/A, port: os.environ/P}}",
    ],
)
def test_an_address_may_be_a_variable_in_every_place(rest: str) -> None:
    tree, notes = one("model: openai/m", rest=rest)
    assert "${A}" in str(tree) and not notes


def test_a_fallback_of_all_models_is_noted_where_it_stands() -> None:
    _, notes = one("model: openai/m", rest="litellm_settings: {default_fallbacks: [gone]}")
    assert notes == ["litellm_settings.default_fallbacks.m: the fallback 'gone' was not taken"]


def test_what_several_deployments_share_is_in_a_list_of_credentials() -> None:
    shared = (
        "credential_list: [{credential_name: c, credential_values: {api_base: 'http://h/v1', api_key: os.environ/K}}]"
    )
    tree, notes = one("model: openai/q, api_key: os.environ/OWN, litellm_credential_name: c", rest=shared)
    assert tree["upstreams"] == {"h": {"base_url": "http://h/v1", "api_key": "${OWN}"}}
    assert notes == []
    twice = shared.replace("[", "[{credential_name: c, credential_values: {api_base: 'http://g/v1'}}, ")
    tree, notes = one("model: openai/q, litellm_credential_name: c", rest=twice)
    assert tree["upstreams"] == {"g": {"base_url": "http://g/v1"}}
    assert notes == ["credential_list[1].credential_name: 'c' is there twice: the first one counts"]
    _, notes = one("model: openai/q, litellm_credential_name: d", rest=shared)
    assert notes == [
        "model_list[0].litellm_params.litellm_credential_name: there is no credential 'd' in credential_list"
    ]


def test_a_parameter_in_a_variable_is_noted() -> None:
    tree, notes = one("model: openai/q, temperature: os.environ/T, stop: [os.environ/S], max_tokens: 9")
    assert tree["models"]["m"]["defaults"] == {"max_tokens": 9}
    place, text = "model_list[0].litellm_params", "is in a variable: write its value into `defaults` of the model"
    assert sorted(notes) == [f"{place}.stop: {text}", f"{place}.temperature: {text}"]
