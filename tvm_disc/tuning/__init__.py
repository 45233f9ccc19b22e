"""Tuning: measure variants on this machine or on others, and keep the times in a file."""

from tvm_disc.tuning.tune import Tuned, tune

__all__ = ["Tuned", "tune"]
