"""What a careful operator asks for: the configuration in force, its health, and the way back to one that worked."""
