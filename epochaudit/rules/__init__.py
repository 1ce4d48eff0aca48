"""Rules: one file per rule, in folders by what they guard."""
