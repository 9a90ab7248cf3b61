"""Whether FAISS computes on a GPU, tried in a process of its own; run as a file, it imports nothing of ours.

FAISS ends the whole process when a kernel cannot be started (a GPU that is too old or too new for the build,
a driver that is broken), which no `except` catches. So the first search on a GPU is made where that does no
harm. Has never met a real GPU: only the way to the refusal has been run.
"""

import json
import sys

__all__ = ["answer_on"]


def answer_on(number: int) -> str:
    """Search two vectors on one GPU; "" if the answer is right, else what went wrong."""
    import faiss
    import numpy as np

    try:
        settings = faiss.GpuIndexFlatConfig()
        settings.device = number
        settings.useFloat16 = True
        index = faiss.GpuIndexFlatIP(faiss.StandardGpuResources(), 8, settings)
        vectors = np.eye(2, 8, dtype=np.float32)
        index.add(vectors)
        _, found = index.search(vectors, 1)
    except Exception as error:  # noqa: BLE001 - FAISS raises what it likes; all of it is an answer here
        return str(error) or type(error).__name__
    return "" if found.ravel().tolist() == [0, 1] else f"it answers wrongly: {found.ravel().tolist()}"


if __name__ == "__main__":
    sys.stdout.write(json.dumps({"said": answer_on(int(sys.argv[1]))}))
