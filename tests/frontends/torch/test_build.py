"""Modules of PyTorch given to ``build``, which exports them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import tvm_disc  # noqa: E402
from tests.frontends.torch.programs import module_of, tensors  # noqa: E402
from tvm_disc.errors import BadInput, TypeMismatch, Unsupported  # noqa: E402


class Block(torch.nn.Module):  # type: ignore[misc, name-defined]
    """A layer with a residual."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)
        self.up = torch.nn.Linear(8, 16)
        self.down = torch.nn.Linear(16, 8)

    def forward(self, x: Any, scale: Any = None) -> Any:
        y = x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))
        return y if scale is None else y * scale


def test_every_dim_is_dynamic_by_default() -> None:
    module = Block().eval()
    exe = tvm_disc.build(module, example_inputs=tensors((2, 5, 8)))
    for b, s in ((2, 2), (3, 7), (2, 64), (5, 33), (8, 128)):
        (x,) = tensors((b, s, 8))
        torch.testing.assert_close(exe(x), module(x), rtol=2e-5, atol=2e-5)


def test_a_saved_program_is_read_by_its_path(tmp_path: Path) -> None:
    module, path = Block().eval(), tmp_path / "block.pt2"
    rows = torch.export.Dim("b", min=0)
    made = torch.export.export(module, tensors((2, 5, 8)), dynamic_shapes=({0: rows},))
    torch.export.save(made, str(path))
    exe = tvm_disc.build(path)
    for b in (1, 2, 7, 64, 0):
        (x,) = tensors((b, 5, 8))
        torch.testing.assert_close(exe(x), module(x), rtol=2e-5, atol=2e-5)


def test_a_file_that_is_no_program_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.pt2"
    with pytest.raises(BadInput, match=r"other\.pt2: No such file"):
        tvm_disc.build(str(path))
    path.write_bytes(b"no archive")
    with pytest.raises(BadInput, match=r"other\.pt2: expected a program that torch.export.save"):
        tvm_disc.build(path)


def test_inputs_by_name_and_dims_by_name() -> None:
    module, (x, scale) = Block().eval(), tensors((2, 5, 8), (8,))
    dims = {"x": {0: torch.export.Dim("b")}, "scale": None}
    exe = tvm_disc.build(module, example_inputs={"x": x, "scale": scale}, dynamic_shapes=dims)
    assert [d for _, d, _ in exe.signature] == [("b", "5", "8"), ("8",)]
    for b in (1, 2, 3, 17, 64):
        (x,) = tensors((b, 5, 8))
        torch.testing.assert_close(exe(x=x, scale=scale), module(x, scale), rtol=2e-5, atol=2e-5)


def test_conditions_that_pytorch_cannot_prove_do_not_end_the_export() -> None:
    """Grouped heads over a growing cache: ``min(16 + 16*p, 32 + 32*p) == 16 + 16*p``."""

    def heads(kept: Any, new: Any) -> Any:
        whole = torch.cat([kept, new], 2)
        b, h, s, w = whole.shape
        return whole[:, :, None].expand(b, h, 2, s, w).reshape(b, 2 * h, s, w)

    b, p = torch.export.Dim("b", min=0), torch.export.Dim("p", min=0, max=63)
    module = module_of(heads)
    dims = (({0: b, 2: p}, {0: b}),)
    example = tensors((2, 2, 7, 16), (2, 2, 1, 16))
    exe = tvm_disc.build(module, example_inputs=example, dynamic_shapes=dims)
    assert exe.signature[0][1] == ("b", "2", "p", "16")
    for n, k in ((1, 0), (1, 1), (2, 7), (3, 31), (5, 13), (2, 0)):
        given = tensors((n, 2, k, 16), (n, 2, 1, 16))
        torch.testing.assert_close(exe(*given), module(*given), rtol=0, atol=0)


def test_example_inputs_of_something_else_are_refused() -> None:
    with pytest.raises(TypeMismatch, match=r"torch\.nn\.Module as the model, found str"):
        tvm_disc.build("fn (%x: float32) { %x }", example_inputs=(1,))


def test_a_lone_tensor_is_refused() -> None:
    with pytest.raises(BadInput, match=r"expected a tuple of inputs.*found Tensor"):
        tvm_disc.build(Block(), example_inputs=tensors((2, 8))[0])


def test_a_module_that_cannot_be_exported_says_why() -> None:
    def branch(x: Any) -> Any:
        return x if x.sum() > 0 else -x

    message = (
        r"(?s)PyTorch cannot export this module: .*`return x if x\.sum\(\) > 0 else -x`\n"
        r".*torch\.compile\(model, backend=\"tvm_disc\", dynamic=True\) runs the parts"
    )
    with pytest.raises(Unsupported, match=message) as found:
        tvm_disc.build(module_of(branch), example_inputs=tensors((3,)))
    assert "TORCH_LOGS" not in str(found.value)


def test_an_operator_without_a_converter_names_the_way_around_it() -> None:
    class Noisy(torch.nn.Module):  # type: ignore[misc, name-defined]
        def forward(self, x: Any) -> Any:
            return x + torch.rand_like(x)

    message = r"(?s)1 node of the PyTorch program.*`return x \+ torch\.rand_like.*torch\.compile\("
    with pytest.raises(Unsupported, match=message):
        tvm_disc.build(Noisy(), example_inputs=tensors((3,)))
