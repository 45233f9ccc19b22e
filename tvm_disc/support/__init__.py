"""Tools that do not know programs or machines."""
