"""Convolutions as implicit GEMMs, and windows: depthwise convolution and pooling."""
