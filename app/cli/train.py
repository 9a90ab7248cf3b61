"""`nearsay train`: vocabularies, encoders and heads from one's own text."""

import click

from nearsay.app.cli.command import CommandGroup
from nearsay.app.cli.train_heads import classifier, reader, tagger
from nearsay.app.cli.train_negatives import negatives
from nearsay.app.cli.train_pretrain import pretrain, vocabulary
from nearsay.app.cli.train_sentence import adapt, cross_encoder, sentence
from nearsay.app.cli.train_smaller import average, distill, reduce, static

__all__ = ["train"]


@click.group(cls=CommandGroup)
def train() -> None:
    """Train vocabularies, encoders and heads on your own text.

    \b
    Example:
        nearsay train vocabulary novels/ --out my-vocabulary
    """


train.add_command(vocabulary)
train.add_command(pretrain)
train.add_command(sentence)
train.add_command(cross_encoder)
train.add_command(adapt)
train.add_command(average)
train.add_command(negatives)
for _smaller in (distill, reduce, static):
    train.add_command(_smaller)
for _head in (classifier, tagger, reader):
    train.add_command(_head)
