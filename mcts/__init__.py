"""Batched Monte Carlo tree search over arrays that knows neither torch nor any game. Still empty."""
