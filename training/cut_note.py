"""What is said of texts that are longer than an encoder takes."""

__all__ = ["cut_note"]


def cut_note(cut: int, texts: int, limit: str) -> str:
    """`2 of 3 texts are longer than LIMIT; what is beyond was left out`; of one text alone, in singular."""
    longer = "the text is" if texts == 1 else f"{cut:,} of {texts:,} texts {'is' if cut == 1 else 'are'}"
    return f"{longer} longer than {limit}; what is beyond was left out"
