"""The process and its clients: uvicorn, workers and signals, the listener, and one connection with its requests."""
