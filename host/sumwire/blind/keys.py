# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The secrets of a job's workers: one of each pair, and one that all of them share.

The workers agree on them once, when the job is made, and keep them in memory only. Every pair's secret comes from an
X25519 exchange with fresh keys, so an eavesdropper does not learn it. Worker 0 draws the common secret, and sends it to
every other worker encrypted with the pair's secret.

Every run of the job derives keys of its own from them (:meth:`Keys.for_run`), from the random numbers (nonces) that the
workers exchange in the run's greeting. A worker draws a new number for every greeting, so its keys are new whatever
others say.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sumwire.blind.masks import Masks
from sumwire.errors import MaskReuseError, PeerLostError

_KEY_BYTES: Final = 32
_SEALED_BYTES: Final = _KEY_BYTES + 16
# A sealing key is used once.
_NONCE: Final = bytes(12)
# Gives the texts of all workers, in their order.
Gather = Callable[[bytes], Sequence[bytes]]


class Keys:
    """One worker's secrets. ``pairs``: the secret shared with each other worker. ``job``: the job's number and name,
    which enter every derived key."""

    def __init__(self, job: str, worker: int, pairs: dict[int, bytes], common: bytes) -> None:
        self._job = job
        self._worker = worker
        self._pairs = pairs
        self._common = common
        self._runs: set[tuple[int, ...]] = set()

    @classmethod
    def agree(cls, job: str, worker: int, gather: Gather, known: bytes | None = None) -> Keys:
        """Agree on secrets with all other workers. A collective call, which gathers twice.

        ``known``: a secret that all workers already have. A process without it cannot take a worker's place in the
        exchange. Raises PeerLostError if worker 0's secret cannot be decrypted.
        """
        own = X25519PrivateKey.generate()
        public = gather(own.public_key().public_bytes_raw())
        pairs = {
            other: _derived(
                own.exchange(X25519PublicKey.from_public_bytes(theirs)),
                f"pair {min(worker, other)} {max(worker, other)} of {job}".encode() + b"".join(public),
                known,
            )
            for other, theirs in enumerate(public)
            if other != worker
        }
        if worker:
            sealed = gather(bytes(_SEALED_BYTES * len(public)))[0]
            common = _opened(job, pairs[0], sealed[_SEALED_BYTES * worker :][:_SEALED_BYTES])
        else:
            common = secrets.token_bytes(_KEY_BYTES)
            gather(bytes(_SEALED_BYTES) + b"".join(_sealed(pairs[other], common) for other in sorted(pairs)))
        return cls(job, worker, pairs, common)

    def for_run(self, first_round: int, nonces: Sequence[int]) -> Masks:
        """Return the masks of a run. ``first_round`` and ``nonces`` come from the run's greeting.

        Raises MaskReuseError if these secrets were already used for such a run.
        """
        run = (first_round, *nonces)
        if run in self._runs:
            raise MaskReuseError(
                f"job {self._job}: a second run with the numbers of an earlier one; start all workers again"
            )
        self._runs.add(run)
        label = " ".join(map(str, run)).encode()
        pairs = {other: _derived(secret, b"masks " + label) for other, secret in self._pairs.items()}
        return Masks(
            self._worker,
            pairs,
            common=_derived(self._common, b"places " + label),
            tags=_derived(self._common, b"tags " + label),
            sums=_derived(self._common, b"sums " + label),
        )


def _derived(secret: bytes, label: bytes, salt: bytes | None = None) -> bytes:
    return HKDF(SHA256(), _KEY_BYTES, salt=salt, info=b"sumwire blind 1 " + label).derive(secret)


def _sealed(pair: bytes, content: bytes) -> bytes:
    return ChaCha20Poly1305(_derived(pair, b"seal")).encrypt(_NONCE, content, None)


def _opened(job: str, pair: bytes, sealed: bytes) -> bytes:
    try:
        return ChaCha20Poly1305(_derived(pair, b"seal")).decrypt(_NONCE, sealed, None)
    except InvalidTag as error:
        raise PeerLostError(
            f"job {job}: the workers' keys do not fit together, as if somebody had changed them on the way; give all "
            "workers the same `blind_key`, see that the process group's network can be trusted, then start all again"
        ) from error
