"""Amounts in words: a number with its noun, and how much room something takes."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 document`, `23,300 documents`; many: the plural, where it takes more than an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def significant(value: float) -> str:
    """Four digits that count, or as many as stand before the point: `0.1235`, `12.5`, `12,346`."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:,.4g}"


def size_words(size: int) -> str:
    """`812 bytes`, `14 kB`, `1.2 MB`, `3,400 MB`: as much as tells one file from another."""
    if size < 1_000:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    if size < 999_500:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.1f} MB" if size < 99.95e6 else f"{size / 1e6:,.0f} MB"
