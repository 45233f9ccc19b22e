"""The host program before it is code: order, ownership, memory, kernels."""
