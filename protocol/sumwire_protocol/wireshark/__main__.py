# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m sumwire_protocol.wireshark` prints the dissector's path; with `--write` it writes the generated table."""

import sys

from sumwire_protocol.wireshark.table import DISSECTOR, SPEC, render

if sys.argv[1:] == ["--write"]:
    SPEC.write_text(render())
else:
    sys.stdout.write(f"{DISSECTOR}\n")
