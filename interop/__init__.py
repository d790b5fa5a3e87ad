"""Real client packages against a running gateway; nothing of the application knows of this."""
