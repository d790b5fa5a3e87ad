from app.endpoints.body import read_fields
from app.endpoints.completions import count_choices, count_prompts, find_most_tokens

from tests.each_case import each_case


@each_case(
    ("body", "prompts"),
    [
        ("{}", 1),
        ('{"prompt": []}', 1),
        ('{"prompt": "ab"}', 1),
        ('{"prompt": [1, 2]}', 1),
        ('{"prompt": ["a", "b"]}', 2),
        ('{"prompt": [[1], [2], [3]]}', 3),
    ],
)
def test_a_list_of_numbers_is_one_prompt(body: str, prompts: int) -> None:
    assert count_prompts(read_fields(body.encode())) == prompts


@each_case(
    ("body", "choices", "most"),
    [
        ('{"prompt": "a"}', 1, 9),
        ('{"prompt": ["a", "b"], "n": 3, "max_tokens": 2}', 6, 12),
        ('{"prompt": [1, 2]}', 1, 9),
        ('{"prompt": [[1], [2]], "n": "x", "max_tokens": -1}', 2, 18),
        ('{"prompt": []}', 1, 9),
        ('{"prompt": "a", "n": 2, "best_of": 5, "max_tokens": 3}', 2, 15),
        ('{"prompt": "a", "n": 2.0, "max_tokens": "3"}', 2, 6),
        ('{"prompt": "a", "n": 99999999999}', 1_000_000_000, 9_000_000_000),
        ('{"prompt": "a", "max_tokens": 1, "n_predict": 7}', 1, 7),
        ('{"prompt": "a", "max_tokens": 1, "n_predict": -1}', 1, 9),
        ('{"prompt": "a", "max_tokens": 1, "max_new_tokens": null}', 1, 1),
        ('{"prompt": "a", "prompt_embeds": ["b", "c"], "max_tokens": 2}', 1, 6),
    ],
)
def test_a_completion_has_n_choices_for_each_prompt(body: str, choices: int, most: int) -> None:
    read = read_fields(body.encode())
    assert (count_choices(read), find_most_tokens(read, 9)) == (choices, most)
