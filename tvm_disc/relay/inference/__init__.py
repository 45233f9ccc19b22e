"""Type inference: types of all expressions of a module, from annotations and uses."""
