"""What can be configured, where it is read from, and the models that follow from it."""
