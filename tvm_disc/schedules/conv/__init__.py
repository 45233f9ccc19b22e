"""Templates of convolutions (implicit and pixel GEMM, Winograd, windows) and of pooling."""
