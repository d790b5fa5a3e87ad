"""What is wrong with a value that a caller or an operator wrote, with its place and the nearest known name."""
