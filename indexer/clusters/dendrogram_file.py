"""A dendrogram as a picture in a file."""

from pathlib import Path
from typing import Literal

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.indexer.clusters.clustering import Clustering
from nearsay.indexer.clusters.dendrogram import dendrogram_plot

__all__ = ["dendrogram_format", "no_dendrogram", "write_dendrogram"]


def dendrogram_format(out: Path) -> Literal["png", "svg"]:
    """By the file's name; BadInputError for another."""
    match out.suffix.lower():
        case ".png":
            return "png"
        case ".svg":
            return "svg"
    raise BadInputError(f"'{out.name}' is neither .png nor .svg. Give the file one of those endings")


def no_dendrogram(method: str | None) -> BadInputError:
    """The error of asking a method for a dendrogram that makes none; None = the usual method."""
    which = "usual method" if method is None else f"method {method}"
    return BadInputError(
        f"the {which} merges no clusters, so there is no dendrogram. Take: --method agglomerative"
    )


def write_dendrogram(clustering: Clustering, out: Path) -> None:
    """Draw how the clusters were merged; BadInputError where no method merged any."""
    picture = dendrogram_format(out)
    if clustering.merges is None:
        raise no_dendrogram(clustering.method)
    drawn = dendrogram_plot(clustering.merges, picture=picture)
    with replacing(out) as stream:
        stream.write(drawn)
