"""The encoding that bytes seem to be in."""

from typing import Final

__all__ = ["USUAL_ENCODINGS", "encoding_hint", "likely_encoding"]

# Encodings that people have. Charset-normalizer knows a hundred, and on little text prefers odd ones.
USUAL_ENCODINGS: Final = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "koi8_r", "mac_roman"),
    *("shift_jis", "euc_jp", "gb18030", "big5", "euc_kr", "utf_8"),
)


def likely_encoding(sample: bytes, but: str) -> str | None:
    """Name the usual encoding that `sample` reads best in, `but` one that failed; None: none fits.

    cp1252 wins a tie: short texts fit several of the Windows encodings alike.
    """
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=list(USUAL_ENCODINGS))
    best = matches.best()
    if best is None:
        return None
    tied = {
        name
        for match in matches
        if match.chaos <= best.chaos and match.coherence >= best.coherence
        for name in match.could_be_from_charset
    }
    name = "cp1252" if "cp1252" in tied else best.encoding
    return None if name.replace("_", "-") in {but, "utf-8", "ascii"} else name


def encoding_hint(sample: bytes, but: str) -> str:
    """Say what to try in place of the encoding `but`; "" when nothing fits."""
    likely = likely_encoding(sample, but)
    return f"; the file looks like {likely} (--encoding {likely})" if likely else ""
