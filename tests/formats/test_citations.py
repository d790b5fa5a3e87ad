"""Citations of web pages between the APIs."""

from typing import Any

from app.formats.citations import write_chat_citation, write_responses_citation

from tests.each_case import each_case

PLACE = {"url": "https://example.com", "title": "t", "start_index": 3, "end_index": 7}
FLAT, NESTED = {"type": "url_citation", **PLACE}, {"type": "url_citation", "url_citation": PLACE}
OF_MESSAGES = {
    "type": "web_search_result_location",
    "url": "https://example.com",
    "title": None,
    "cited_text": "a",
    "encrypted_index": "E",
}
READ = {"url": "https://example.com", "content": "a", "start_index": 0, "end_index": 0}
FILE = {"type": "file_citation", "file_id": "f", "filename": "a.pdf", "index": 3}
PAGE = {"type": "page_location", "document_index": 0, "cited_text": "a", "start_page_number": 1}


@each_case(
    ("given", "chat", "responses"),
    [
        (FLAT, FLAT | NESTED, FLAT),
        (NESTED, NESTED, FLAT),
        (OF_MESSAGES, OF_MESSAGES | {"type": "url_citation", "url_citation": READ}, {"type": "url_citation", **READ}),
        *((other, other, other) for other in (FILE, PAGE, "odd", None, {"url": "https://example.com"})),
    ],
)
def test_a_citation_of_a_web_page_has_the_form_of_the_api(given: Any, chat: Any, responses: Any) -> None:
    assert write_chat_citation(given) == chat
    assert write_responses_citation(given) == responses
