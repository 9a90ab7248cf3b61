"""A dendrogram as a picture in a file."""

from pathlib import Path
from typing import Literal

from nearsay.data.durable import replacing
from nearsay.data.errors import BadInputError
from nearsay.indexer.clusters.clustering import Clustering
from nearsay.indexer.clusters.dendrogram import dendrogram_plot

__all__ = ["dendrogram_format", "write_dendrogram"]


def dendrogram_format(out: Path) -> Literal["png", "svg"]:
    """By the file's name; BadInputError for another."""
    match out.suffix.lower():
        case ".png":
            return "png"
        case ".svg":
            return "svg"
    raise BadInputError(f"'{out.name}' is neither .png nor .svg. Give the file one of those endings")


def write_dendrogram(clustering: Clustering, out: Path) -> None:
    """Draw how the clusters were merged; BadInputError where no method merged any."""
    picture = dendrogram_format(out)
    if clustering.merges is None:
        raise BadInputError(
            f"the method {clustering.method} merges no clusters, so there is no dendrogram. "
            "Take: --method agglomerative"
        )
    drawn = dendrogram_plot(clustering.merges, picture=picture)
    with replacing(out) as stream:
        stream.write(drawn)
