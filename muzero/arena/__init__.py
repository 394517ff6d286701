"""Arena: play against agents in a terminal or a browser, and ask them what they think of a position."""
