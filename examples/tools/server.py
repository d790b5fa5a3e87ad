"""A server of tools for Parley, or any other client of MCP, with the official SDK (`pip install mcp`).

A tool is a function: the model sees its name, its parameters with their types, and its docstring.
"""

from mcp.server.mcpserver import MCPServer

server = MCPServer("words")


@server.tool()
def count_words(text: str) -> str:
    """Count the words of a text."""
    return f"{len(text.split())} words"


if __name__ == "__main__":
    server.run()
