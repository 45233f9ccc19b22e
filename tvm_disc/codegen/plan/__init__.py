"""The host program before code generation: order of instructions, ownership, memory, kernels."""
