"""Import of models of other frameworks. ONNX, PyTorch and StableHLO each have a table of operator
converters.

Models of all frameworks become Relay modules, except Relax modules, which are used unchanged. The
Python module of a front end is imported when the first model of its framework is read.
"""

from __future__ import annotations

from tvm_disc.frontends.detect import (
    exported,
    from_onnx,
    from_pytorch,
    from_relax,
    read_model,
)

__all__ = ["exported", "from_onnx", "from_pytorch", "from_relax", "read_model"]
