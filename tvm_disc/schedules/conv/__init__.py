"""Convolutions as implicit matrix products, and windows: depthwise convolution and pooling."""
