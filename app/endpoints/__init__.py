"""Requests that are no conversation: embeddings, rankings, scores, text completions, images, audio. Body and answer
pass through as they are, but for the model's name; what limits, prices and errors need is read on the way. Pure.
"""
