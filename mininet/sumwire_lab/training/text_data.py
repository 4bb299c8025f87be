# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The task of predicting the next character of Python's help texts: the data, and a character transformer."""

from __future__ import annotations

from pydoc_data import topics
from typing import Final

import torch
from torch import Tensor, nn

from sumwire_lab.training.digits_data import Samples

CONTEXT: Final = 64
"""Characters in a sample, and the most that the transformer sees."""
# Printable ASCII and the newline. All other characters are one more entry of the vocabulary.
ALPHABET: Final = "\n" + "".join(map(chr, range(32, 127)))
VOCABULARY: Final = len(ALPHABET) + 1
# Every tenth topic is held out as a whole, so that training sees nothing of it.
_HELD_OUT_EVERY: Final = 10
TEST_SAMPLES: Final = 64
_HEAD_WIDTH: Final = 32
_LAYERS: Final = 3
# Width of a convolution before the layers. It gives each position its preceding characters, which attention would take
# long to learn.
_SEEN_AT_ONCE: Final = 4


def encode(text: str) -> Tensor:
    """Return the numbers of the characters, int64[characters]."""
    numbers = {character: number for number, character in enumerate(ALPHABET)}
    return torch.tensor([numbers.get(character, VOCABULARY - 1) for character in text])


def load() -> Samples:
    """Return samples of the running Python's `topics`, in the order of their names; they differ a little between its
    versions.

    A sample is CONTEXT characters and, shifted by one, the character that follows each. Samples do not overlap. The
    test has TEST_SAMPLES samples, spread evenly over the held-out topics.
    """
    names = sorted(topics.topics)
    held_out = names[::_HELD_OUT_EVERY]
    train_x, train_y = _samples([name for name in names if name not in held_out])
    test_x, test_y = _samples(held_out)
    kept = torch.linspace(0, len(test_x) - 1, TEST_SAMPLES).long()
    return Samples(train_x, train_y, test_x[kept], test_y[kept])


def _samples(names: list[str]) -> tuple[Tensor, Tensor]:
    """x and y, each int64[samples, CONTEXT]."""
    numbers = encode("\n".join(topics.topics[name] for name in names))
    count = (len(numbers) - 1) // CONTEXT
    used = count * CONTEXT
    return numbers[:used].view(count, CONTEXT), numbers[1 : used + 1].view(count, CONTEXT)


class _Block(nn.Module):
    """Causal attention, then a hidden layer four times as wide, each after a layer norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.heads = max(1, width // _HEAD_WIDTH)
        self.before_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.merge = nn.Linear(width, width)
        self.before_hidden = nn.LayerNorm(width)
        narrow = nn.Linear(4 * width, width)
        self.hidden = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), narrow)
        # The block starts as the identity, so that the layers near the output learn first.
        nn.init.zeros_(self.merge.weight)
        nn.init.zeros_(narrow.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.merge(self._attend(self.before_attention(x)))
        x = x + self.hidden(self.before_hidden(x))
        return x

    def _attend(self, x: Tensor) -> Tensor:
        samples, length, width = x.shape
        parts = self.query_key_value(x).view(samples, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return seen.transpose(1, 2).reshape(samples, length, width)


class Transformer(nn.Module):
    """A character transformer: int64[samples, length <= CONTEXT] -> float32[samples, length, VOCABULARY], the logits of
    the next character.

    With width 192, 1,532,257 parameters. Raises ValueError for a width that its heads do not divide.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        if width % max(1, width // _HEAD_WIDTH):
            raise ValueError(f"width {width}: must be below {2 * _HEAD_WIDTH} or a multiple of {_HEAD_WIDTH}")
        self.characters = nn.Embedding(VOCABULARY, width)
        self.places = nn.Embedding(CONTEXT, width)
        self.before = nn.Conv1d(width, width, _SEEN_AT_ONCE)
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(_LAYERS)))
        self.norm = nn.LayerNorm(width)
        self.out = nn.Linear(width, VOCABULARY)
        nn.init.normal_(self.places.weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        characters = self.characters(x)
        before = nn.functional.pad(characters.transpose(1, 2), (_SEEN_AT_ONCE - 1, 0))
        seen = self.before(before).transpose(1, 2) + characters + self.places.weight[: x.shape[1]]
        out: Tensor = self.out(self.norm(self.blocks(seen)))
        return out
