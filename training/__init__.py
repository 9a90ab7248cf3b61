"""Encoders: what they are, how they run, how good they are.

Importing it does two things. ONNX Runtime is told to send nothing home, unless the environment says that
it may: from 1.32 on it notes machine and program, to be sent. And OpenMP's threads are told to sleep
while they wait for each other, unless the environment says how they wait. Left alone, GNU's OpenMP lets
them turn in a loop for milliseconds, and one other busy program makes a training several times slower.
torch has a copy of that library, FAISS and scikit-learn share another, and each reads its settings when
it is loaded: no later moment would do. A program that imports torch before nearsay keeps torch's threads
as they are; it can set OMP_WAIT_POLICY=PASSIVE before it starts.
"""

import os

# Read when the library is loaded: its own call to switch it off comes after the first event.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")

# GNU's OpenMP knows the first two, LLVM's and Intel's the first and the last.
if not any(name in os.environ for name in ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "KMP_BLOCKTIME")):
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
