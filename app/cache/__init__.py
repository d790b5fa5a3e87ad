"""The cache: replies that need no second call to the model, and calls that many callers share."""
