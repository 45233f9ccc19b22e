"""Source locations of the nodes of a PyTorch graph."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tvm_disc.typing import FxNode

_FRAME = re.compile(r'File "([^"]+)", line (\d+), in .*\n\s*(.*)')

MOST_CODE = 100  # maximum number of characters of a source line in a message


def place_of(node: FxNode) -> str:
    """Return a node's name, with its file and line if PyTorch recorded them."""
    return place_and_code(node)[0]


def place_and_code(node: FxNode) -> tuple[str, str]:
    """Return the result of :func:`place_of`, and the source line, shortened to ``MOST_CODE``.

    The line is the innermost one outside of the package ``torch``: the call of a layer, not the
    code of the layer.
    """
    frames = _FRAME.findall(node.meta.get("stack_trace") or "")
    if not frames:
        return str(node.name), ""
    own = [frame for frame in frames if not frame[0].startswith(_torch_folder())]
    path, line, code = (own or frames)[-1]
    code = code.strip()
    short = code if len(code) <= MOST_CODE else f"{code[:MOST_CODE]} ..."
    return f"{node.name} ({path.rpartition('/')[2]}:{line})", short


@cache
def _torch_folder() -> str:
    """Return the folder of the package ``torch``, with a slash at the end."""
    spec = find_spec("torch")
    assert spec is not None and spec.origin is not None
    return f"{Path(spec.origin).parent}/"
