"""PyTorch: exported programs as Relay modules, and what compiles modules and graphs.

PyTorch is imported when it is first needed, and by nothing else.
"""

from __future__ import annotations

from tvm_disc.frontends.torch.export import Exported, exported, load_program
from tvm_disc.frontends.torch.program import from_pytorch
from tvm_disc.frontends.torch.recurrent import whole_layers

__all__ = ["Exported", "exported", "from_pytorch", "load_program", "whole_layers"]
