# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The keys of a job whose packets have authentication tags, derived from the 32 bytes that its configuration names.

Host, software aggregator and controller derive the same keys. The controller writes them into the job's row at the
switch. docs/security.md describes how tags are computed.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from commonlib.untrusted import UntrustedInputError

from sumwire_protocol import constants as p4

KEY_BYTES: Final = 32
"""Bytes of a job's key."""
_DIGITS: Final = re.compile(rb"[0-9a-fA-F]{64}")
_MAKE: Final = "(umask 077 && openssl rand -hex 32 > FILE)"
_BLOCK_BYTES: Final = 64
_SIP_BYTES: Final = 16


def read_key(path: str) -> bytes:
    """Read a job's key from a file with 64 hexadecimal digits.

    The file must have an absolute name, be a regular file, and be accessible to its owner only. There is one exception:
    a credential from systemd may be open to its group, because an access-list entry for the service's user looks like
    that, and its folder is closed to all others. Raises UntrustedInputError, whose message is the broken rule and never
    the content.
    """
    if not Path(path).is_absolute():
        raise UntrustedInputError("must be the absolute name of a file with the key")
    try:
        # A pipe without a writer does not hold the reader.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name of a file"
        cure = f"copy the job's key file there, or make one for the switch and all workers: {_MAKE}"
        raise UntrustedInputError(f"names a key file that cannot be read ({why}); {cure}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise UntrustedInputError(f"must name a regular file; {_MAKE}")
        if status.st_mode & (stat.S_IRWXO if _is_credential(path) else stat.S_IRWXG | stat.S_IRWXO):
            raise UntrustedInputError("names a key file that others than its owner may open; chmod 600 FILE")
        digits = os.read(descriptor, 2 * KEY_BYTES + 2).strip()
    finally:
        os.close(descriptor)
    if not _DIGITS.fullmatch(digits):
        raise UntrustedInputError(f"names a file that must hold {2 * KEY_BYTES} hexadecimal digits; {_MAKE}")
    return bytes.fromhex(digits.decode())


def _is_credential(path: str) -> bool:
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    return folder is not None and Path(path).parent == Path(folder)


@dataclass(frozen=True)
class TagKeys:
    """The derived keys of a job. None of them appears in the ``repr``.

    ``words``: the key of the universal hash, a 1024-bit number for each word of a payload. ``sip``: SipHash's key
    between workers and switches, its first and its second 8 bytes as numbers. ``recovery``: SipHash's key between
    workers.
    """

    words: tuple[int, ...] = field(repr=False)
    sip: tuple[int, int] = field(repr=False)
    recovery: tuple[int, int] = field(repr=False)


def tag_keys(key: bytes, job: int) -> TagKeys:
    """Derive the keys of the job, or the lane, with this number. ``key``: 32 bytes.

    Every block is BLAKE2b (RFC 7693), keyed, of the job's number (2 bytes) and a counter (2 bytes), both big endian.
    Blocks 0 to 15 are the words' key, block 16 begins with SipHash's, block 17 with that of recovery. Raises ValueError
    for a key of another length.
    """
    if len(key) != KEY_BYTES:
        raise ValueError(f"a key of {len(key)} bytes: must have {KEY_BYTES}")
    hash_blocks = p4.SLOT_WORDS * p4.WORD_BYTES // _BLOCK_BYTES
    stream = b"".join(_block(key, job, number) for number in range(hash_blocks))
    words = [stream[at : at + p4.WORD_BYTES] for at in range(0, len(stream), p4.WORD_BYTES)]
    return TagKeys(
        words=tuple(int.from_bytes(word, "big") for word in words),
        sip=_sip_key(_block(key, job, hash_blocks)),
        recovery=_sip_key(_block(key, job, hash_blocks + 1)),
    )


def _block(key: bytes, job: int, number: int) -> bytes:
    message = job.to_bytes(2, "big") + number.to_bytes(2, "big")
    return hashlib.blake2b(message, key=key, digest_size=_BLOCK_BYTES, person=b"sumwire tags 1").digest()


def _sip_key(block: bytes) -> tuple[int, int]:
    """SipHash reads numbers with their least significant byte first."""
    half = _SIP_BYTES // 2
    return int.from_bytes(block[:half], "little"), int.from_bytes(block[half:_SIP_BYTES], "little")
