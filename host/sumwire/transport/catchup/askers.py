# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Who may ask at the recovery port: addresses of the job's workers that have shown that they get what is sent there.

Anybody can write a worker's address into a question. Its answer is many times as long, and would go to that worker. So
a question is answered only if it has the nonce of its sender's address and port, which nobody else gets to see. The
nonce is computed from a secret of this process: nothing is kept for each sender but its rates.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from typing import Final

from sumwire.config import JobConfig

NONCE_BYTES: Final = 8
# Sent by who has not been told the nonce yet.
NO_NONCE: Final = bytes(NONCE_BYTES)
# Answers a second to one address, and at once. A worker that catches up asks for 64 results in each round trip.
ANSWERS_PER_S: Final = 20_000.0
ANSWERS_AT_ONCE: Final = 4096
# The same of nonces. They have a bound of their own, so that forged questions do not use up that of the answers.
NONCES_PER_S: Final = 1000.0
NONCES_AT_ONCE: Final = 256


@dataclass
class Rate:
    """A token bucket: ``at_once`` events, and ``per_s`` a second from then on. ``now`` are seconds of any clock."""

    per_s: float
    at_once: float
    _left: float = -1.0
    _since: float = 0.0

    def allows(self, now: float) -> bool:
        """Return whether one more event is within the bound, and count it if so."""
        left = self.at_once if self._left < 0 else min(self.at_once, self._left + (now - self._since) * self.per_s)
        self._since = now
        self._left = left - 1 if left >= 1 else left
        return left >= 1


class Asker:
    """One address with the seats of the workers there."""

    def __init__(self) -> None:
        self.seats: set[int] = set()
        self.answers = Rate(ANSWERS_PER_S, ANSWERS_AT_ONCE)
        self.nonces = Rate(NONCES_PER_S, NONCES_AT_ONCE)


class Askers:
    """The other workers of the job by address, and the nonces of their ports."""

    def __init__(self, config: JobConfig) -> None:
        self._secret = secrets.token_bytes(32)
        self._askers: dict[str, Asker] = {}
        for number, address in enumerate(config.addresses):
            if number != config.worker:
                self._askers.setdefault(address.ip, Asker()).seats.add(address.seat)

    def at(self, ip: str) -> Asker | None:
        """None if no other worker of the job has the address."""
        return self._askers.get(ip)

    def nonce(self, sender: tuple[str, int]) -> bytes:
        """That of an address and port."""
        ip, port = sender
        return hashlib.blake2b(f"{ip}:{port}".encode(), key=self._secret, digest_size=NONCE_BYTES).digest()

    def has_nonce(self, sender: tuple[str, int], nonce: bytes) -> bool:
        """Whether the nonce in a question is that of its sender."""
        return hmac.compare_digest(nonce, self.nonce(sender))
