"""The error for input that cannot be used."""


class DataError(ValueError):
    """Input that cannot be used; its text is one sentence for its owner."""


def require_trimmed(what: str, *texts: str) -> None:
    """Raises unless all are texts without spaces around them: values of a table are compared without.

    Raises:
        DataError: an empty text, or one with spaces around it.
    """
    if odd := [text for text in texts if not text or text != text.strip()]:
        raise DataError(f"Expected {what} as a text without spaces around it; got {odd[0][:80]!r}.")
