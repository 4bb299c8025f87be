# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The error of sums with lost or cut packets, and the energy of each drop class.

    python -m sumwire.dlcp.exactness [--json]

Gradients of four workers are summed by THC as in a switch. A share of the contributions or results is lost or cut
("hit"). Rows: nothing is hit; contributions or results lose their two low planes; or contributions are dropped, and the
sum is divided by the number of contributors, or by all workers, as if missing contributions were zeros. Packets that
are hit are drawn at random, or are those of the smallest magnitude. The number is the NMSE of the mean, |error|^2 /
|mean|^2, of one round without error feedback.

Gradients: "layered" are normal values whose scale differs by blocks of 4096 as between layers (log-normal, sigma 1);
0.7 of their energy is common to the workers. "digits" are those of the tenth training step on scikit-learn's digits.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from sumwire.codec import layout
from sumwire.codec.oracles import nmse
from sumwire.codec.tables import ThcTable, for_workers
from sumwire.codec.thc import ThcCodec, ThcRound
from sumwire.dlcp.tags import CLASSES, LayerMagnitude

WORKERS: Final = 4
SHARES: Final = (0.01, 0.03, 0.1, 0.2)
DRAWN_VALUES: Final = 1 << 20
_COMMON: Final = 0.7
_BLOCK: Final = 4096
_STEPS: Final = 10
_BATCH: Final = 32

# (share, magnitudes) -> which contributions are hit, bool; both arrays have shape (workers, chunks).
Choose = Callable[[float, NDArray[np.float32]], NDArray[np.bool_]]


class Sum:
    """The workers' gradients, summed in one switch while some contributions or results are lost or cut. Errors are the
    NMSE of the mean."""

    def __init__(self, gradients: Sequence[Tensor], table: ThcTable) -> None:
        self._table = table
        self._gradients = gradients
        self._truth = torch.stack(list(gradients)).double().mean(0)
        first = self._rounds()
        self.magnitudes = np.stack([one.magnitudes() for one in first])
        self._agreed = np.maximum.reduce([one.norms() for one in first])
        self._indices = np.stack([layout.unpack_index_planes(one.encode(self._agreed)) for one in first])

    @property
    def chunks(self) -> int:
        """Number of packets of each worker."""
        return len(self.magnitudes[0])

    def whole(self) -> float:
        """Return the error when nothing is lost."""
        return self._error(self._indices, np.zeros(self.magnitudes.shape, np.bool_))

    def cut(self, hit: NDArray[np.bool_]) -> float:
        """Return the error if contributions lose their two low planes."""
        return self._error(np.where(hit[..., None], filled(self._indices), self._indices), np.zeros_like(hit))

    def cut_results(self, hit: NDArray[np.bool_]) -> float:
        """Return the error if results lose their two low planes in the chunks that ``hit``, bool (chunks,), selects."""
        return self._error(self._indices, np.zeros(self.magnitudes.shape, np.bool_), hit)

    def dropped(self, hit: NDArray[np.bool_], *, zero_fill: bool = False) -> float:
        """Return the error if the contributions that ``hit`` selects are missing. With ``zero_fill`` the sum is divided
        by all workers."""
        return self._error(self._indices, hit, zero_fill=zero_fill)

    def _rounds(self) -> list[ThcRound]:
        return [ThcCodec(self._table, job=1, worker=w).begin(x, 0, 0) for w, x in enumerate(self._gradients)]

    def _error(
        self,
        indices: NDArray[np.uint8],
        missing: NDArray[np.bool_],
        cut: NDArray[np.bool_] | None = None,
        *,
        zero_fill: bool = False,
    ) -> float:
        values = np.array(self._table.values)[indices]
        values[missing] = 0
        sums = values.sum(axis=0).astype(np.uint8)
        if cut is not None:
            sums[cut] = filled(sums[cut])
        one = self._rounds()[0]
        one.encode(self._agreed)
        if zero_fill:
            one.divide_by(len(self._gradients))
        counts = len(self._gradients) - missing.sum(axis=0)
        return nmse(one.decode(layout.pack_index_planes(sums, layout.SUM_PLANES), counts).double(), self._truth)


def filled(values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Values of shape (..., 1024) whose two low bits are lost and replaced: by 2 in even places, by 1 in odd ones."""
    low = np.where(np.arange(values.shape[-1]) % 2 == 0, 2, 1).astype(np.uint8)
    return (values & np.uint8(0xFC)) | low


def at_random(seed: int) -> Choose:
    """Choose contributions at random, each independently."""
    draws = np.random.default_rng(seed)
    return lambda share, magnitudes: draws.random(magnitudes.shape) < share


def smallest(share: float, magnitudes: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Choose the given share of every worker's contributions, those of smallest magnitude."""
    count = round(share * magnitudes.shape[1])
    hit = np.zeros(magnitudes.shape, np.bool_)
    for row, places in zip(hit, np.argsort(magnitudes, axis=1, kind="stable")[:, :count], strict=True):
        row[places] = True
    return hit


def rows(gradients: Sequence[Tensor], shares: Sequence[float] = SHARES) -> dict[str, list[float]]:
    """Return the error by row, for each share."""
    one = Sum(gradients, for_workers(len(gradients)))
    found: dict[str, list[float]] = {"whole": [one.whole()] * len(shares)}
    hits = [at_random(1)(share, one.magnitudes) for share in shares]
    small = [smallest(share, one.magnitudes) for share in shares]
    found["contributions cut"] = [one.cut(hit) for hit in hits]
    found["results cut"] = [one.cut_results(hit[0]) for hit in hits]
    found["dropped, by contributors"] = [one.dropped(hit) for hit in hits]
    found["dropped, zero-filled"] = [one.dropped(hit, zero_fill=True) for hit in hits]
    found["smallest dropped, by contributors"] = [one.dropped(hit) for hit in small]
    found["smallest dropped, zero-filled"] = [one.dropped(hit, zero_fill=True) for hit in small]
    return found


def energy_of_classes(gradients: Sequence[Tensor], position: float) -> list[float]:
    """Return the share of the gradients' energy in packets of drop classes 0 to 3, by the default policy."""
    energy = np.zeros(CLASSES)
    for magnitudes in Sum(gradients, for_workers(len(gradients))).magnitudes:
        classes = LayerMagnitude().drop_classes(position, magnitudes)
        energy += np.bincount(classes, np.square(magnitudes, dtype=np.float64), CLASSES)
    return [float(share) for share in energy / energy.sum()]


def layered(seed: int = 1) -> list[Tensor]:
    """Return the error of drawn gradients, see the module."""
    generator = torch.Generator().manual_seed(seed)
    blocks = DRAWN_VALUES // _BLOCK
    scale = torch.exp(torch.randn(blocks, generator=generator, dtype=torch.float32, device="cpu")).repeat_interleave(
        _BLOCK
    )
    common = torch.randn(DRAWN_VALUES, generator=generator, dtype=torch.float32, device="cpu") * _COMMON**0.5
    own = (1 - _COMMON) ** 0.5
    return [
        scale * (common + own * torch.randn(DRAWN_VALUES, generator=generator, dtype=torch.float32, device="cpu"))
        for _ in range(WORKERS)
    ]


def digits(seed: int = 1) -> list[Tensor]:
    """Return the error of recorded gradients, see the module. Needs scikit-learn."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    x, y = torch.from_numpy((images - images.mean()) / images.std()).float(), torch.from_numpy(labels)
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    gradients: list[Tensor] = []
    for _ in range(_STEPS):
        gradients = []
        for _ in range(WORKERS):
            chosen = torch.randint(len(x), (_BATCH,), device="cpu")
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[chosen]), y[chosen]).backward()  # type: ignore[no-untyped-call]
            gradients.append(torch.cat([p.grad.reshape(-1) for p in model.parameters() if p.grad is not None]))
        mean, start = torch.stack(gradients).mean(0), 0
        for p in model.parameters():
            p.grad = mean[start : start + p.numel()].view(p.shape).clone()
            start += p.numel()
        optimizer.step()
    return gradients


def measure() -> dict[str, Any]:
    """Return all numbers, ready for JSON."""
    sources: Mapping[str, Callable[[], list[Tensor]]] = {"layered": layered, "digits": digits}
    found: dict[str, Any] = {"shares": list(SHARES)}
    for name, make in sources.items():
        if name == "digits" and importlib.util.find_spec("sklearn") is None:
            continue
        gradients = make()
        found[name] = {
            "nmse": rows(gradients),
            "energy_front": energy_of_classes(gradients, 0.0),
            "energy_back": energy_of_classes(gradients, 1.0),
        }
    return found


def as_text(found: Mapping[str, Any]) -> str:
    """Return tables of what `measure` found."""
    shares = found["shares"]
    lines = []
    for name in (name for name in found if name != "shares"):
        lines.append(f"{name:34}" + "".join(f"{100 * share:>9g} %" for share in shares))
        lines += [f"  {row:32}" + "".join(f"{v:11.4f}" for v in values) for row, values in found[name]["nmse"].items()]
        for place in ("front", "back"):
            energy = ", ".join(f"{100 * share:.1f} %" for share in found[name][f"energy_{place}"])
            lines.append(f"  energy of classes 0, 1, 2, 3 at the {place}: {energy}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(
        prog="python -m sumwire.dlcp.exactness", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    found = measure()
    sys.stdout.write((json.dumps(found) if options.json else as_text(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
