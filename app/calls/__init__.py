"""Calls of a model that several clients share: the reply as a log, its readers, and its stored form."""
