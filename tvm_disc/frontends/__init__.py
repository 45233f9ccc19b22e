"""Import of models of other frameworks; each framework has one table of operator converters.

ONNX models and PyTorch programs become Relay modules; Relax modules are used unchanged. A front end
is imported with the first model of its framework.
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
