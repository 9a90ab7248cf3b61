"""How much room something takes, in words."""

__all__ = ["size_words"]


def size_words(size: int) -> str:
    """`812 bytes`, `14 kB`, `1.2 MB`, `3,400 MB`: as much as tells one file from another."""
    if size < 1_000:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    if size < 999_500:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.1f} MB" if size < 99.95e6 else f"{size / 1e6:,.0f} MB"
