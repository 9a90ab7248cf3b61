"""The memory of a batch on the CPU."""

import os
import platform
import subprocess
import sys

import pytest

_CHURN = """
import resource
import torch
from nearsay.training.encoder.hardware import choose_device

choose_device("cpu")

def batch():
    for block in [torch.empty(8 * 2**20, dtype=torch.uint8) for _ in range(4)]:
        block.fill_(1)

for _ in range(10):
    batch()  # freed blocks join, until all of a batch fit
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    batch()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has these limits")
@pytest.mark.parametrize(("set_by_user", "kept"), [({}, True), ({"MALLOC_TOP_PAD_": "0"}, False)])
def test_on_the_cpu_the_memory_of_a_batch_is_kept_for_the_next_unless_the_user_set_limits(
    set_by_user: dict[str, str], *, kept: bool
) -> None:
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    done = subprocess.run(
        [sys.executable, "-c", _CHURN], env=ours | set_by_user, capture_output=True, text=True, check=True
    )
    one_batch = 4 * 8 * 2**20 // os.sysconf("SC_PAGE_SIZE")
    assert (int(done.stdout) < one_batch) is kept
