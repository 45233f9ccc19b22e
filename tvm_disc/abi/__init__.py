"""What a compiled program and whoever calls it agree on; needs neither TVM nor the compiler."""
