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
    """Return how many tokens the choices may have together. `unknown` is for one without a limit."""
    return count_choices(body) * (body.read_count("max_tokens") or unknown)
