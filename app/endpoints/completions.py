"""What a request for a text completion asks for."""

from app.endpoints.body import EndpointBody


def count_choices(body: EndpointBody) -> int:
    """Return how many choices a completion has: `n` for each of its prompts."""
    return count_prompts(body) * (body.read_count("n") or 1)


def count_prompts(body: EndpointBody) -> int:
    """Return the number of prompts. A list of numbers is one, as tokens."""
    prompt = body.read("prompt")
    if not isinstance(prompt, list) or not prompt or isinstance(prompt[0], int):
        return 1
    return len(prompt)


def find_most_tokens(body: EndpointBody, unknown: int) -> int:
    """Return how many tokens a server may generate: for each of its choices, and for those that it makes to choose the
    best ones. `unknown` is for a choice without a limit."""
    embedded = body.read("prompt_embeds")  # vLLM's, beside the texts
    prompts = count_prompts(body) + (len(embedded) if isinstance(embedded, list) else 0)
    limits = [body.read_count(name) or unknown for name in _LIMITS if body.read(name) is not None]
    return prompts * (body.read_count("n", "best_of") or 1) * max(limits, default=unknown)


_LIMITS = ("max_tokens", "max_completion_tokens", "max_new_tokens", "n_predict", "num_predict", "max_length")
"""What servers call the most tokens of a choice. Which one counts is not known."""
