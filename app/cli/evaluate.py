"""`nearsay evaluate`: how good an encoder is."""

import click

from nearsay.app.cli.command_group import CommandGroup
from nearsay.app.cli.evaluate_batches import batches
from nearsay.app.cli.evaluate_compare import compare
from nearsay.app.cli.evaluate_compression import compression
from nearsay.app.cli.evaluate_heads import classifier, reader, tagger
from nearsay.app.cli.evaluate_judged import (
    classification,
    clustering,
    nli,
    pairs,
    reranking,
    retrieval,
    sts,
    triplets,
)
from nearsay.app.cli.evaluate_layers import layers
from nearsay.app.cli.evaluate_mlm import mlm
from nearsay.app.cli.evaluate_tokenizer import tokenizer
from nearsay.app.cli.evaluate_unlabelled import unlabelled

__all__ = ["evaluate"]


@click.group(cls=CommandGroup)
def evaluate() -> None:
    """Measure an encoder against judged data.

    \b
    Example:
        nearsay evaluate sts stsb/test.tsv
    """


for _judged in (sts, triplets, pairs, nli, retrieval, reranking, clustering, classification):
    evaluate.add_command(_judged)
evaluate.add_command(compare)
evaluate.add_command(batches)
evaluate.add_command(compression)
evaluate.add_command(unlabelled)
evaluate.add_command(tokenizer)
evaluate.add_command(layers)
evaluate.add_command(mlm)
for _head in (classifier, tagger, reader):
    evaluate.add_command(_head)
