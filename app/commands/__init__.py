"""What the commands of `parley` do: one module for each, with a function `run` that returns the exit status."""
