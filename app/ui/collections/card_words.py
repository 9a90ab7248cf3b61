"""What is said of a collection at one look; plain text."""

from nearsay.data.quantity import counted
from nearsay.indexer.plans.plan import EXACT_UP_TO, Plan
from nearsay.indexer.writing.overview import CollectionOverview

__all__ = ["facts", "to_be_told"]


def facts(found: CollectionOverview) -> list[tuple[str, str]]:
    """What a card shows below the sizes: a label and a value each."""
    live = found.live
    clusters = "none yet" if found.clusters is None else f"{found.clusters:,}"
    if found.clusters is not None and found.unclustered:
        clusters += f", {counted(found.unclustered, 'newer passage')} in none"
    said = [
        (
            "Encoder",
            "none yet" if live is None else f"{live.encoder.name}, {live.encoder.dimension} dimensions",
        ),
        ("Clusters", clusters),
        ("Fields", ", ".join(found.fields) or "none"),
    ]
    if found.gate is not None:
        said.append(("Near-duplicates", f"{found.gate.action}, cosine {found.gate.threshold:g} and above"))
    return said


def to_be_told(found: CollectionOverview) -> list[str]:
    """What needs attention, each with its remedy on this page."""
    said: list[str] = []
    if not found.documents:
        said.append("This collection is empty. Add documents, or delete it under Generations.")
    if found.waiting and found.documents:
        said.append(
            f"{counted(found.waiting, 'passage')} cannot be found by meaning yet: an addition is running "
            "or was stopped. To resume a stopped one, add the same documents again or resume it on the page "
            "Runs; mending the live generation under Generations embeds what it had read."
        )
    if found.live is not None:
        warning = Plan.from_json(found.live.plan).warning(found.name)
        if warning is not None:
            said.append(warning)
    if found.unindexed > EXACT_UP_TO:
        said.append(
            f"{counted(found.unindexed, 'passage')} have no index, so every search compares its question "
            "with each of them. Build one under Generations."
        )
    waiting = [row for row in found.generations if row.state == "ready"]
    if waiting:
        said.append(
            f"Generation {waiting[-1].number}, by {waiting[-1].encoder.name}, is ready. "
            "Promote it under Generations."
        )
    if found.removed and found.removed >= 0.2 * max(found.passages, 1):
        said.append(
            f"{counted(found.removed, 'removed passage')} still take space. Compact the collection under "
            "Generations."
        )
    return said
