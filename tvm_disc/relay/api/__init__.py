"""What Relay's Python functions take, where that is not what their operators have."""
