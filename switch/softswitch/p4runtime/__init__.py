# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""P4Runtime 1.4 over gRPC for any :class:`softswitch.device.Device`.

The entry point is :func:`softswitch.p4runtime.server.serve`. "The specification" in this package means
P4Runtime v1.4, whose section titles the docstrings quote.
"""

from commonlib.p4runtime import load_messages

load_messages()
