"""Messages between msd and a child in another environment: facts as JSON, then the bytes of named arrays.

No pickles: NumPy's differ between its versions, and nothing that an environment sends is executed here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Message = tuple[dict[str, Any], dict[str, Array]]
"""Facts that JSON can hold, and arrays by name."""


def pack(facts: Mapping[str, Any], arrays: Mapping[str, Array]) -> bytes:
    """Return a message as bytes: a line of JSON, then each array in row-major order."""
    headed = {"facts": facts, "arrays": [[name, a.dtype.name, a.shape] for name, a in arrays.items()]}
    return b"\n".join(
        [json.dumps(headed).encode(), b"".join(np.asarray(a).tobytes() for a in arrays.values())]
    )


def unpack(data: bytes) -> Message:
    """Return the message in `data`; raises ValueError for one that is not whole, TypeError for a dtype."""
    head, _, body = data.partition(b"\n")
    headed, arrays, at = json.loads(head), dict[str, Array](), 0
    for name, dtype, shape in headed["arrays"]:
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(body, np.dtype(dtype), count, at).reshape(shape).copy()
        at += arrays[name].nbytes
    if at != len(body):
        raise ValueError(f"a message has {len(body)} bytes of arrays in place of {at}")
    return headed["facts"], arrays
