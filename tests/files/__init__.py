"""Files that were damaged: mutations of what is recorded, by format."""
