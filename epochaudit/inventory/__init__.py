"""What an audit has read, and which evidence is missing."""
