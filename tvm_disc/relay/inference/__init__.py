"""Type inference: the type of every expression of a module, from annotations and uses."""
