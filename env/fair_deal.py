"""Deals that can be checked: whoever deals publishes a hash before the game, and what was hashed after it.

The hash binds the dealer to the seed, so that no card can be changed during the game; the nonce keeps others from
trying seeds until the hash fits. Anybody can check it with a standard tool:

    printf '%s' "SEED:NONCE" | sha256sum
"""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass, field

NONCE_BYTES = 32


def commitment(seed: int, nonce: str) -> str:
    """SHA-256 of a seed and a nonce, as 64 hexadecimal digits."""
    return hashlib.sha256(f"{seed}:{nonce}".encode()).hexdigest()


@dataclass(frozen=True)
class FairDeal:
    """Seed of a game and the nonce that hides it until the game is over.

    Attributes:
      seed: seed of the cards, 0 to 2**64 - 1; drawn by the operating system unless it is given.
      nonce: hexadecimal digits that nobody else knows; drawn by the operating system unless they are given.
    """

    seed: int = field(default_factory=lambda: secrets.randbits(64))
    nonce: str = field(default_factory=lambda: secrets.token_hex(NONCE_BYTES))

    @property
    def commitment(self) -> str:
        """Hash to show before the first card is dealt."""
        return commitment(self.seed, self.nonce)
