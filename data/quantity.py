"""Formatting of amounts: numbers with a noun, sizes."""


def counted(count: int, one: str, many: str | None = None) -> str:
    """`1 document`, `23,300 documents`; many: the plural, if it is irregular."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def significant(value: float) -> str:
    """Round to four significant digits, or to an integer: `0.1235`, `12.5`, `12,346`."""
    return f"{value:,.0f}" if abs(value) >= 9_999.5 else f"{value:,.4g}"


def size_words(size: int) -> str:
    """Format a size: `812 bytes`, `14 kB`, `1.2 MB`, `3,400 MB`."""
    if size < 1_000:
        return f"{size} byte" if size == 1 else f"{size} bytes"
    if size < 999_500:
        return f"{size / 1e3:.0f} kB"
    return f"{size / 1e6:.1f} MB" if size < 99.95e6 else f"{size / 1e6:,.0f} MB"
