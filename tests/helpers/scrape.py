# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Reads what is served in Prometheus' text format."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scrape(place: str) -> Samples:
    """Values at ADDRESS:PORT by name and by labels, each a pair of name and value."""
    with urllib.request.urlopen(f"http://{place}/metrics", timeout=10) as answer:
        return parsed(answer.read().decode())


def parsed(text: str) -> Samples:
    """Values of a text, as :func:`scrape` gives them. A value that is there twice is an error."""
    found: Samples = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in found.setdefault(sample.name, {}), f"{sample.name}{labels} is there twice"
            found[sample.name][labels] = sample.value
    return found
