"""OpenAI's Responses API: `/v1/responses` and the responses that it keeps."""
