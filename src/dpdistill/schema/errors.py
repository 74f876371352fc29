"""What is said of input that cannot be used."""


class DataError(ValueError):
    """Input that cannot be used; its text is one sentence for the person at the door."""
