"""Picture files drawn with matplotlib, .png or .svg."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from nearsay.data.durable import ending_of, replacing

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people tell apart (https://jfly.uni-koeln.de/color/), with an
# olive for their yellow, which is too pale for a line; and marks.
COLOURS: Final = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7", "#999933", "#000000")
MARKS: Final = ("o", "s", "^", "D", "v", "P", "X", "*")
PICTURES: Final = ("png", "svg")


def picture_format(path: Path) -> str:
    """The picture format by the file extension, png or svg; BadInputError for another one."""
    return ending_of(path, *PICTURES)


def write_picture(path: Path, draw: "Callable[[], Figure]", *, dpi: int = 150, tight: bool = False) -> None:
    """Draw and write a picture by its file extension, atomically; BadInputError for another extension.

    Dollar signs in texts are literal, and equal drawings give equal bytes. tight: crop to the content
    """
    kind = picture_format(path)
    from matplotlib import rc_context

    with warnings.catch_warnings(), rc_context({"text.parse_math": False, "svg.hashsalt": "nearsay"}):
        # Names in a script that matplotlib's own font lacks are boxes.
        warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
        figure = draw()
        dateless = {"Date": None} if kind == "svg" else {}
        bounds = "tight" if tight else None
        with replacing(path) as stream:
            figure.savefig(stream, format=kind, dpi=dpi, bbox_inches=bounds, metadata=dateless)
