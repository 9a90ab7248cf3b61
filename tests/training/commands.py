"""Commands of nearsay that one process runs one after another: `commands.py '[["train", …], …]' [PORT …]`.

torchrun's processes take a port for each command: through torchrun's own store they can meet only once.
KILLED_AFTER_LINES=n in the environment ends the process at the n-th line of its runs' metrics.
"""

import itertools
import json
import os
import runpy
import signal
import sys

from nearsay.training.run.metrics_log import MetricsLog

if lines := int(os.environ.get("KILLED_AFTER_LINES", "0")):
    append, counted = MetricsLog.append, itertools.count(1)

    def appended(log, line):
        append(log, line)
        if next(counted) == lines:
            os.kill(os.getpid(), signal.SIGKILL)

    MetricsLog.append = appended

commands, *ports = sys.argv[1:]
for words, port in itertools.zip_longest(json.loads(commands), ports):
    if port:
        os.environ |= {"MASTER_PORT": port, "TORCHELASTIC_USE_AGENT_STORE": "False"}
    sys.argv[1:] = words
    try:
        runpy.run_module("nearsay.app.cli", run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code:
            raise
