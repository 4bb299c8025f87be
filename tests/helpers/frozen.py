# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A server that forks processes imports this last: what it has loaded is then of no concern to the garbage collector.

Otherwise each forked process walks through all of torch when it collects garbage and when it ends, and copies the pages
that it shares with the server.
"""

from __future__ import annotations

import gc

gc.collect()
gc.freeze()
