"""Load a request's media: fetch URLs, extract text from documents, scale images. Each URL is fetched once.

This module and that of `documents` import nothing: a document worker loads them, and needs little else of the gateway.
"""
