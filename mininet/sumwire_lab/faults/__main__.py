# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire_lab.faults FOLDER` carries out the case in a folder, in namespaces from the scheduler."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from sumwire_lab.faults.cases import RECORD, FaultCase
from sumwire_lab.faults.rows import EVERY
from sumwire_lab.system.leftovers import LEDGER_DIR


def main(folder: Path) -> None:
    case = FaultCase.load(folder)
    # Process numbers in ledgers are those of this namespace, and mean nothing to other runs of the lab.
    LEDGER_DIR.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "none", str(LEDGER_DIR)], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    record = EVERY[case.row].carry_out(case, folder)
    (folder / RECORD).write_text(json.dumps(record))


if __name__ == "__main__":
    main(Path(sys.argv[1]).absolute())
