"""Messages of OpenAI's chat completions: the format of every upstream, and one of the client formats."""
