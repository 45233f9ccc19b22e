"""bfloat16 results and literals, whichever error NumPy's DLPack reader raises for them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from tvm import relax

from tvm_disc.runtime.arrays import as_array, as_tensor
from tvm_disc.support.literals import literal_value


@pytest.mark.parametrize("kind", [RuntimeError, BufferError])
def test_a_dtype_that_numpy_lacks(kind: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy before 2.5 raises RuntimeError, later ones BufferError."""
    plain = np.from_dlpack

    def read(tensor: Any) -> Any:
        if str(tensor.dtype) == "bfloat16":
            raise kind("Unsupported dtype in DLTensor.")
        return plain(tensor)

    monkeypatch.setattr(np, "from_dlpack", read)
    array = np.array([1, 2.5, -3], ml_dtypes.bfloat16)
    assert as_array(as_tensor(array)).tolist() == [1, 2.5, -3]
    literal = relax.const(array, "bfloat16")
    assert literal_value(literal).tolist() == [1, 2.5, -3]
