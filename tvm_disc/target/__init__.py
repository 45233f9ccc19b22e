"""What a machine is, before anything is known of its speed: its registers, caches and cores."""
