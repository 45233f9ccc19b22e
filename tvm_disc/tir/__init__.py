"""The builder of TIR: statements, indices, vectors, opaque values, LLVM's operators."""
