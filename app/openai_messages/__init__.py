"""Messages in the form of OpenAI's chat completions: what every upstream takes, and one of the client formats."""
