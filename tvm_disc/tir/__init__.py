"""Helpers that build TIR: statements, index arithmetic, vectors, opaque values, LLVM operators."""
