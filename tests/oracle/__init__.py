"""Slow, plain reference implementations of the games, for tests only."""
