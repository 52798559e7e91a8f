"""What an audit found, in the formats that people and other programs read."""
