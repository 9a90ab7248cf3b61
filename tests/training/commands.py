"""Commands of nearsay that one process runs one after another: `commands.py '[["train", …], …]' [PORT …]`.

torchrun's processes take a port for each command: through torchrun's own store they can meet only once.
"""

import itertools
import json
import os
import runpy
import sys

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
