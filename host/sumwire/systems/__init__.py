# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""All distributed training methods of this library ("systems"), by name and behind one interface.

    system = sumwire.systems.make("marsit", job, global_lr=1e-3, full_precision_every=100)
    optimizer = system.attach(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    ...                                                  # zero_grad, backward, optimizer.step() as usual
    print(system.stats)
    system.close()

``TABLE`` has the entry of every system; docs/systems.md shows them. :mod:`sumwire.systems.spec` explains the fields.
`make` and `System` are loaded on first use, so that the entries can be read without torch.

`attach` takes a plain model or a DistributedDataParallel one. A system that acts in DDP's hook aggregates gradients
there, or for a plain model in the optimizer's step. A system that acts in the optimizer works on updates, or on
gradients as they come; with a DDP model, a hook keeps DDP from averaging the gradients.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from commonlib.facade import on_first_use

from sumwire.systems.table import TABLE as TABLE

if TYPE_CHECKING:
    from sumwire.systems.factory import make as make
    from sumwire.systems.system import System as System

__getattr__, __dir__ = on_first_use(
    globals(),
    lambda home: importlib.import_module(f"{__name__}.{home}"),
    {"factory": "make", "system": "System", "table": "TABLE"},
)
