"""`nearsay encoders inside`: what an encoder's layers and heads compute, for a text and a collection."""

from typing import TYPE_CHECKING, Any, Literal

import click

from nearsay.app.cli.command import GROUP, CommandGroup, argument, option
from nearsay.app.cli.options import (
    COLLECTION,
    ENCODER,
    JSON,
    LIMIT,
    ONE_ENCODER,
    REPLACE,
    SAMPLE,
    SEED,
    Computing,
    OnDevice,
)
from nearsay.app.cli.printing import print_json, print_notes, print_rows, print_table
from nearsay.data.document import visible
from nearsay.data.errors import BadInputError
from nearsay.data.quantity import counted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nearsay.indexer.inside.tokens import TokenMatches
    from nearsay.training.bert.attention import TextAttention
    from nearsay.training.bert.relevance import TokenRelevance

_HEADS = option(
    "Number of an attention head, from 1; attention is averaged over several heads. Can be repeated.",
    "--head",
    least=1,
    shown="all",
)
_LAYER = option("Number of the layer, from 1.", least=1)


@click.group(cls=CommandGroup)
def inside() -> None:
    """Show what the layers and attention heads of an encoder compute.

    \b
    Example:
        nearsay encoders inside text "The bank raised its rates." --layer 3 --head 2
    """


@inside.command()
def text(
    text: str,
    pair: str | None = option("Second text, which is read together with the first.", metavar="TEXT"),
    encoder: str = ONE_ENCODER,
    layers: tuple[int, ...] = option(
        "Number of the layer, from 1. Can be repeated.", "--layer", least=1, shown="all"
    ),
    heads: tuple[int, ...] = _HEADS,
    masked: tuple[int, ...] = option(
        "Position of a token to replace by the mask token, from 0. Can be repeated.", "--mask", least=0
    ),
    query: str | None = option("Also show each token's share of the cosine similarity to this query."),
    as_json: bool = JSON,
    run: Computing = GROUP,
) -> None:
    """Show for each token of TEXT what it attends to and what it adds to the text's vector.

    The shares in the vector, and in the cosine similarity to a query, are exact for encoders that average
    their tokens; attention rollout and gradient x input are shown for comparison. With --json a row holds all
    attention weights of a token.

    \b
    Example:
        nearsay encoders inside text "The bank raised its rates." --layer 3 --head 2 --head 7
        nearsay encoders inside text "She closed the door behind her." --mask 4 --encoder my-bert
    """
    from nearsay.training.bert.attention import AttentionReader

    reader = AttentionReader.load(encoder, device=run.device)
    read = reader.read(text, pair, masked=masked)
    chosen = [
        _chosen(numbers, most, what)
        for numbers, most, what in ((layers, reader.layers, "layer"), (heads, reader.heads, "head"))
    ]
    attention = read.attentions[chosen[0]][:, chosen[1]].mean(axis=(0, 1))
    relevance = reader.relevance(text, pair, query=query, masked=masked)
    _print_tokens(read, attention, relevance, as_json=as_json)
    print_notes([*read.notes, *relevance.notes])


def _chosen(numbers: tuple[int, ...], most: int, what: str) -> list[int]:
    """Convert numbers from 1 to indices from 0; () means all."""
    if numbers and max(numbers) > most:
        raise BadInputError(f"there is no {what} {max(numbers)}: the encoder has {most}")
    return sorted({number - 1 for number in numbers}) or list(range(most))


def _print_tokens(
    read: "TextAttention", attention: "NDArray[np.float32]", relevance: "TokenRelevance", *, as_json: bool
) -> None:
    masked = (place for place, token in enumerate(read.tokens) if token.masked)
    likely, own = dict(zip(masked, read.words, strict=False)), relevance.vector

    def plain(place: int) -> dict[str, object]:
        token = read.tokens[place]
        return {
            "place": place,
            "token": token.text,
            "start": token.start,
            "end": token.end,
            "segment": token.segment,
            "special": token.special,
            "masked": token.masked,
            "attention": [round(float(weight), 6) for weight in attention[place]],
            "share_of_vector": None if relevance.vector is None else float(relevance.vector[place]),
            "share_of_query": None if relevance.query is None else float(relevance.query[place]),
            "rollout": float(relevance.rollout[place]),
            "gradient_x_input": float(relevance.gradient[place]),
            "words": [
                {"token": word.token, "probability": word.probability} for word in likely.get(place, ())
            ],
        }

    def most(place: int) -> str:
        at = int(attention[place].argmax())
        return f"{read.tokens[at].text} {attention[place, at]:.2f}"

    print_rows(
        range(len(read.tokens)),
        {
            "place": str,
            "token": lambda place: read.tokens[place].text + " (masked)" * read.tokens[place].masked,
            "attends to most": most,
            "of the vector": lambda place: "-" if own is None else f"{own[place]:.3f}",
            "of the query": lambda place: "-" if relevance.query is None else f"{relevance.query[place]:.3f}",
            "rollout": lambda place: f"{relevance.rollout[place]:.3f}",
            "gradient x input": lambda place: f"{relevance.gradient[place]:.3f}",
        },
        as_json=as_json,
        to_json=plain,
    )
    if as_json:
        return
    for place, words in likely.items():
        named = ", ".join(f"{word.token} {word.probability:.2f}" for word in words)
        click.echo(visible(f"predictions for {read.tokens[place].text}: {named}"))
    if relevance.cosine is not None:
        click.echo(f"cosine to the query: {relevance.cosine:.4f}")


@inside.command()
def sample(
    collection: str = COLLECTION,
    encoder: str = ONE_ENCODER,
    layer: int = _LAYER,
    tokens: int = option(
        "Maximum number of tokens to store.", "--sample", metavar="N", default=50_000, least=1
    ),
    seed: int = SEED(0),
    tagger: str | None = option(
        "Folder of a head trained by `nearsay train tagger`, whose tags are stored as well.", metavar="DIR"
    ),
    replace: bool = REPLACE,
    as_json: bool = JSON,
    place: OnDevice = GROUP,
) -> None:
    """Store the token vectors of a layer for passages of COLLECTION, to search by token.

    Passages are drawn at random, up to 256 tokens of each. One sample is stored per encoder and layer.

    \b
    Example:
        nearsay encoders inside sample papers --layer 4
    """
    from nearsay.app.cli.progress import ProgressBar
    from nearsay.training.bert.attention import AttentionReader

    with place.open() as library, ProgressBar("reading", unit="tokens") as bar:
        reader = AttentionReader.load(encoder, device=place.device, deepest=layer)
        row = library.collection(collection).explore.sample_tokens(
            reader, layer, tokens=tokens, seed=seed, tagger=tagger, anew=replace, progress=bar
        )
    made = {name: value for name, value in row.parameters.items() if name != "labels"}
    if as_json:
        print_json({"layer": row.layer, "tokens": row.tokens, "sha256": row.sha256, **made})
    else:
        texts = counted(made["texts"], "passage")
        click.echo(f"{row.tokens:,} tokens of {texts} at layer {row.layer}, in {made['seconds']} s")


@inside.command()
def search(
    collection: str = COLLECTION,
    text: str = argument(),
    at: int = option(
        "Position of the token in TEXT, from 0, as `nearsay encoders inside text` shows it.",
        "--place",
        least=0,
    ),
    encoder: str = ONE_ENCODER,
    layer: int = _LAYER,
    by: Literal["embedding", "context"] = option(
        "What is compared: the vector of the token, or the output of the chosen attention heads.",
        default="embedding",
    ),
    heads: tuple[int, ...] = _HEADS,
    limit: int = LIMIT,
    no_special: bool = option("Ignore [CLS] and [SEP] among the tokens that are attended to most."),
    as_json: bool = JSON,
    place: OnDevice = GROUP,
) -> None:
    """Find the tokens of COLLECTION whose vectors at a layer are nearest to a token of TEXT.

    Each line shows a match {in braces} and the token that it attends to most [in brackets]. Create the sample
    with `nearsay encoders inside sample` first; all of it is compared.

    \b
    Example:
        nearsay encoders inside search papers "The bank raised its rates." --place 2 --layer 4
        nearsay encoders inside search papers "It rained." --place 2 --layer 4 --by context --head 3
    """
    from nearsay.indexer.inside.tokens import SearchBy
    from nearsay.training.bert.attention import AttentionReader

    with place.open() as library:
        explore = library.collection(collection).explore
        reader = AttentionReader.load(encoder, device=place.device)
        kept = [row for row in explore.token_samples(reader.fingerprint) if row.layer == layer]
        if not kept:
            raise BadInputError(
                f"'{collection}' has no sample of layer {layer} of {reader.name}. Create it: "
                f"nearsay encoders inside sample {collection} --layer {layer} --encoder {encoder}"
            )
        read = reader.read(text)
        if at >= len(read.tokens):
            raise BadInputError(f"there is no token {at}: the text has {len(read.tokens)}, from 0")
        vectors = read.states[layer] if by == "embedding" else read.contexts[layer - 1]
        chosen = _chosen(heads, reader.heads, "head")
        found = explore.search_tokens(
            explore.open_sample(kept[0]),
            reader,
            vectors[at],
            by=SearchBy(by),
            heads=chosen,
            k=limit,
            special=not no_special,
        )
    _print_matches(found, as_json=as_json)
    print_notes([*read.notes, *found.notes])


def _print_matches(found: "TokenMatches", *, as_json: bool) -> None:
    signs = {"match": "{}", "attended": "[]", "both": "{}"}
    for match in found.matches:
        if as_json:
            print_json(match.to_json())
            continue
        pieces: list[tuple[Any, str]] = [*match.line()]
        line = "".join(piece.join(signs[part]) if part in signs else piece for part, piece in pieces)
        special = f"  [{match.attended}]" if match.attended_start == match.attended_end else ""
        click.echo(f"{match.rank:3}. {match.score:.3f}  {visible(line + special)}")
    for summary in () if as_json else found.summaries:
        for whose, values in (("matched", summary.matched), ("attended to", summary.attended)):
            if values:
                listed = ", ".join(f"{value} {count}" for value, count in values)
                click.echo(visible(f"{summary.name}, {whose}: {listed}"))


@inside.command()
def compare(
    before: str = argument(type=ENCODER),
    after: str = argument(type=ENCODER),
    collection: str = COLLECTION,
    sample: int = SAMPLE(100),
    seed: int = SEED(0),
    as_json: bool = JSON,
    place: OnDevice = GROUP,
) -> None:
    """Show which attention heads changed from encoder BEFORE to encoder AFTER.

    Measures the mean Jensen-Shannon divergence of the attention of each head over passages of COLLECTION, in
    bits: 0 means equal, 1 means that nothing is in common.

    \b
    Example:
        nearsay encoders inside compare all-MiniLM-L6-v2 library/encoders/mine papers
    """
    from nearsay.training.bert.attention import AttentionReader

    with place.open() as library:
        drawn = library.collection(collection).explore.drawn_texts(sample, seed)
        one, two = (AttentionReader.load(name, device=place.device) for name in (before, after))
        found = one.divergence(two, drawn)
    if as_json:
        for layer, values in enumerate(found.tolist(), 1):
            for head, value in enumerate(values, 1):
                print_json({"layer": layer, "head": head, "divergence": value})
        return
    lines = [[str(layer), *(f"{value:.3f}" for value in row)] for layer, row in enumerate(found, 1)]
    print_table(["layer", *(f"head {number}" for number in range(1, one.heads + 1))], lines)
