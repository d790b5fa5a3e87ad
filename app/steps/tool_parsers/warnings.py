"""The warnings that a reply ends with."""


class Warnings:
    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        """Add a warning, once."""
        if text not in self.texts:
            self.texts.append(text)
