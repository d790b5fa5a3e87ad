"""The types that all other packages share: messages, reply events and stages. They are pure and know no format."""
