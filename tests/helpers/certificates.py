# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, made by the command `openssl`. Any test that calls this needs it."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@dataclass(frozen=True)
class Signed:
    certificate: Path
    key: Path


@dataclass(frozen=True)
class Authority:
    """Signs certificates into its folder."""

    folder: Path

    @property
    def certificate(self) -> Path:
        return self.folder / "ca.pem"

    def sign(self, name: str, *, address: str = "127.0.0.1", days: int = 2) -> Signed:
        """A certificate for an IP address; with -1 days it has expired."""
        signed = Signed(self.folder / f"{name}.pem", self.folder / f"{name}.key")
        asked, subject = (
            self.folder / f"{name}.csr",
            ("-subj", f"/CN={name}", "-addext", f"subjectAltName=IP:{address}"),
        )
        _openssl("req", *_KEY, "-keyout", signed.key, "-out", asked, *subject)
        ours = ("-CA", self.certificate, "-CAkey", self.folder / "ca.key", "-CAcreateserial")
        _openssl(
            "x509", "-req", "-in", asked, *ours, "-days", days, "-copy_extensions", "copy", "-out", signed.certificate
        )
        return signed


def authority(folder: Path) -> Authority:
    folder.mkdir(parents=True, exist_ok=True)
    made = Authority(folder)
    _openssl(
        "req", "-x509", *_KEY, "-keyout", folder / "ca.key", "-out", made.certificate, "-subj", "/CN=ca", "-days", 2
    )
    return made


def _openssl(*words: object) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)
