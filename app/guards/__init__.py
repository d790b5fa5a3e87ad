"""Guards: what looks at requests before a model sees them, and at replies before a client does.

The settings need its rules. All else is imported where guards are configured.
"""
