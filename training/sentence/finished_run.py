"""The end of a training run: its folder becomes the model."""

from collections.abc import Callable, Mapping
from pathlib import Path

from nearsay.data.document import JsonValue
from nearsay.training.encoder.folder import EncoderFolder
from nearsay.training.run.metrics_log import read_metrics
from nearsay.training.run.model_card import ModelCard
from nearsay.training.run.run_folder import RunFolder
from nearsay.training.run.run_plot import plot_run
from nearsay.training.sentence.quiet import quiet_libraries
from nearsay.training.sentence.refusal import refuse_unsafe


def finish_run(
    run: RunFolder,
    save: Callable[[Path], object],
    card: ModelCard,
    result: Mapping[str, JsonValue],
    *,
    kind: str,
) -> None:
    """Turn `OUT` into the model with its card and lineage, and write result.json and a plot to `OUT/run`.

    save: writes the model's files to a folder
    kind: what was trained, for the plot's title
    """
    plot_run(read_metrics(run.metrics), run.plot, title=f"{kind.capitalize()} {card.title}")
    run.write_run_json("result.json", {**result})

    def save_all(folder: Path) -> None:
        with quiet_libraries():
            save(folder)
        card.save(folder)

    run.finish(save_all)
    refuse_unsafe(EncoderFolder(run.out))  # what we make must be what we take
