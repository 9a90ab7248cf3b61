"""The options of `nearsay train pretrain` as a `Pretraining`."""

from collections.abc import Mapping, Sequence
from typing import Any

from nearsay.app.cli.pretraining_options import prepare_options
from nearsay.data.pretraining.example_config import ExampleConfig, Masking, Packing
from nearsay.training.bert.pretrain import Pretraining
from nearsay.training.bert.sizes import BertSize
from nearsay.training.encoder.precision import Precision
from nearsay.training.run.optimisation import Optimisation

__all__ = ["pretraining_of"]


def pretraining_of(texts: Sequence[str], options: Mapping[str, Any]) -> Pretraining:
    """Read the options; BadInputError for those that do not go together."""
    size = None
    longest = max(options["length"], options["long_length"] if options["long_share"] else 0, 512)
    if options["start"] is None or options["size"] is not None or options["dropout"] is not None:
        dropout = 0.1 if options["dropout"] is None else options["dropout"]
        size = BertSize.parse(options["size"] or "small", positions=longest, dropout=dropout)
    return Pretraining(
        texts=tuple(texts),
        vocabulary=options["vocabulary"],
        size=size,
        start=options["start"],
        examples=ExampleConfig(
            length=options["length"],
            packing=Packing.FULL_SENTENCES if options["no_nsp"] else Packing.SENTENCE_PAIRS,
            masking=Masking(options["masking"]),
        ),
        span_boundary=options["span_boundary"],
        batch=options["batch"],
        tokens_at_once=options["tokens_at_once"],
        long_length=options["long_length"],
        long_share=options["long_share"],
        reading=prepare_options(
            options["text"],
            options["breaks"],
            one_sentence_a_line=options["one_sentence_a_line"],
            strict=options["strict"],
        ),
        prepared=options["prepared"],
        dev=tuple(options["dev"]),
        evaluate_every=options["evaluate_every"],
        optimisation=Optimisation(
            steps=options["steps"],
            minutes=options["minutes"],
            learning_rate=options["learning_rate"],
            warmup_share=options["warmup"],
            weight_decay=options["weight_decay"],
            precision=Precision(options["precision"]),
            compile=options["compile"],
            seed=options["seed"],
            log_every=options["log_every"],
            checkpoint_every=options["checkpoint_every"],
            exact_resume=not options["inexact_resume"],
        ),
    )
