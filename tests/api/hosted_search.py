"""What tests of searches and fetches share: the server of tools, and what it finds."""

from pathlib import Path
from typing import Any

SCRIPT = str(Path(__file__).parents[1] / "tools" / "search_mcp.py")
HOSTED: dict[str, Any] = {
    "web_search": {"mcp": "web", "tool": "search", "count": "max_results", "models": ["m*"]},
    "web_fetch": {"mcp": "web", "tool": "fetch", "models": ["m*"]},
}
ONE, TWO = "[1] One\nhttps://a.example/one\nThe first page.", "[2] Two\nhttps://b.example/two\nThe second page."
KEYS = {name: f"key-of-{name}-00001" for name in ("a", "b")}
