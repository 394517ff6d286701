"""The randomness of all games, as their pages in docs/games state it."""

from __future__ import annotations

from dataclasses import dataclass

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


def mix(z: int) -> int:
    """The output function of SplitMix64."""
    z &= _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def game_key(seed: int, deal: int, episode: int) -> int:
    """The key of all the randomness in one episode."""
    key = 0
    for x in (seed, deal, episode):
        key = mix(key + _GOLDEN * (x + 1))
    return key


@dataclass
class Random:
    """The counter-based generator: the same key and counter always give the same number."""

    key: int
    counter: int = 0

    def at(self, counter: int) -> int:
        """64 random bits for a counter."""
        return mix(self.key + _GOLDEN * (counter + 1))

    def below(self, n: int) -> int:
        """The next number from 0 to n - 1."""
        result = (self.at(self.counter) * n) >> 64
        self.counter += 1
        return result

    def take_from(self, pile: list[int]) -> int:
        """Take a random element out of a list; the last element moves to its place."""
        i = self.below(len(pile))
        taken = pile[i]
        pile[i] = pile[-1]
        pile.pop()
        return taken
