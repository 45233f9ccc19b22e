"""PyTorch front end: exported programs and graphs as Relay modules, and the export of modules.

Only this package imports PyTorch, and only when it is first used.
"""

from __future__ import annotations

from tvm_disc.frontends.torch.export import Exported, exported, load_program
from tvm_disc.frontends.torch.program import from_pytorch
from tvm_disc.frontends.torch.recurrent import whole_layers

__all__ = ["Exported", "exported", "from_pytorch", "load_program", "whole_layers"]
