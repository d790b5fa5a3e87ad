"""The Responses API of a model server: the body that it is sent, and its reply as events."""
