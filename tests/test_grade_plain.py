"""What comes back from a rank: data is loaded, code is refused."""

from __future__ import annotations

import subprocess
import sys

DATA = """
import collections, numpy, torch
from mindlab.ranks import payload
from mindlab.ranks.job import Outcome
small = [{1, 2}, 1j, slice(1), b"x", None, range(3), 2.5, [("a", {"b": True})], collections.Counter("aa")]
typed = [torch.Size([2]), torch.float32, torch.device("cpu"), numpy.arange(3), numpy.float64(2), Outcome(1)]
data = [pickle.dumps(value, protocol=4) for value in (small, typed, payload.pack(torch.ones(3)))]
data.append(payload.pack([torch.ones(3), torch.nn.Parameter(torch.ones(2))]).pickle)
"""
LOADS = """
import pickle, sys
from mindlab.book.grading import plain
import mindlab.ranks.launcher
plain.only_data()
for number, pickled in enumerate([bytes.fromhex(text) for text in sys.argv[1:]] + data):
    try:
        pickle.loads(pickled, buffers=[bytearray(12), bytearray(8)])
        print("loaded")
    except pickle.UnpicklingError as error:
        print(error)
"""
CODE = (
    ("builtins", "exec"),
    ("os", "system"),
    ("subprocess", "Popen"),
    ("torch", "load"),
    ("functools", "partial"),
    ("mindlab.book.workers", "Worker"),
    ("mindlab.trace.storage", "load"),
    ("mindlab.trace.storage", "os.system"),
)


def _calls(module: str, name: str) -> bytes:
    """A pickle that calls module.name("1")."""
    texts = [f"X{chr(len(text))}\0\0\0{text}".encode() for text in (module, name, "1")]
    return b"\x80\x04" + texts[0] + texts[1] + b"\x93" + texts[2] + b"\x85R."


def test_data_is_loaded_and_code_refused() -> None:
    """Catches an answer whose returned object patches the check where it arrives, and a refusal of what
    honest answers return."""
    pickles = [_calls(*one).hex() for one in CODE]
    done = subprocess.run(
        [sys.executable, "-c", f"import pickle\n{DATA}{LOADS}", *pickles],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.splitlines() == [f"{module}.{name}" for module, name in CODE] + ["loaded"] * 4, (
        done.stderr
    )
