# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""What the doctor says on a host: `python -m sumwire_lab.life.patient JOB.json WORKER RESULT.json [REVISION]`.

Writes its findings, and how many seconds they took. `REVISION`: as for a newcomer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from sumwire.doctor import findings
from sumwire.doctor.examination import examine
from sumwire_protocol import constants

from sumwire_lab.system.processes import end_with_parent


def main(arguments: list[str]) -> None:
    end_with_parent()
    job_file, worker, result, *revision = arguments
    if revision:
        vars(constants)["PROGRAM_REVISION"] = int(revision[0])
    began = time.monotonic()
    found = findings.as_dict(list(examine(Path(job_file), int(worker))))
    partial = Path(result).with_suffix(".partial")
    partial.write_text(json.dumps({**found, "seconds": time.monotonic() - began}))
    partial.replace(result)


if __name__ == "__main__":
    main(sys.argv[1:])
