"""`nearsay train`: vocabularies, encoders and heads on your own text."""

import click

from nearsay.app.cli.command import CommandGroup
from nearsay.app.cli.train_heads import classifier, reader, tagger
from nearsay.app.cli.train_negatives import negatives
from nearsay.app.cli.train_pretrain import pretrain, vocabulary
from nearsay.app.cli.train_sentence import adapt, cross_encoder, sentence
from nearsay.app.cli.train_smaller import average, distill, reduce, static


@click.group(
    cls=CommandGroup,
    commands=[
        vocabulary,
        pretrain,
        sentence,
        cross_encoder,
        adapt,
        average,
        negatives,
        distill,
        reduce,
        static,
        classifier,
        tagger,
        reader,
    ],
)
def train() -> None:
    """Train vocabularies, encoders and heads on your own text.

    \b
    Example:
        nearsay train vocabulary novels/ --out my-vocabulary
    """
