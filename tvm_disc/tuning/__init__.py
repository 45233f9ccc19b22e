"""Tuning: measure variants on this machine or others, and keep what was found."""

from tvm_disc.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
