"""Application of functions that a script registered for operators, before a build as in Relay."""

from __future__ import annotations

from tvm_disc.relay.module import IRModule
from tvm_disc.relay_api import qnn_transform, registry, transform

KEYS = ("FTVMQnnLegalize", "FTVMQnnCanonicalize", "FTVMLegalize", "FTVMAlterOpLayout")


def with_registered(mod: IRModule) -> IRModule:
    """Return ``mod`` after the passes that apply registered functions, if there are any.

    As in Relay, ``AlterOpLayout`` runs only in a ``PassContext`` of level 3 or higher.
    """
    if not registry.has_attribute(*KEYS):
        return mod
    passes = [qnn_transform.Legalize(), transform.Legalize(), transform.AlterOpLayout()]
    made = transform.Sequential(passes)(mod)
    assert isinstance(made, IRModule)
    return made


__all__ = ["with_registered"]
