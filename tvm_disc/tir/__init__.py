"""Helpers that build TIR: statements, index arithmetic, vectors, and calls of LLVM functions."""
