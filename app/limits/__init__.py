"""Limits of requests, tokens, replies in progress and spending, and the queue of requests that wait for a place."""
