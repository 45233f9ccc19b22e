"""Translation of Relay modules to Relax."""
