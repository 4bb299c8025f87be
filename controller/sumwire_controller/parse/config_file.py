# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""YAML text -> Config. One error names everything that is wrong with the text.

The keys and their types are checked here, the values in `rules/switch_config.py`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Final

from sumwire_controller.model.config import Config
from sumwire_controller.parse.reader import Log, MappingReader
from sumwire_controller.parse.sections import (
    each,
    names_in,
    read_aggregator,
    read_job,
    read_queue,
    read_switch,
    read_worker,
)
from sumwire_controller.parse.yamltree import Node, load_tree, read_file
from sumwire_controller.rules.drafts import Draft
from sumwire_controller.rules.switch_config import validate_draft

_ROOT_KEYS: Final = ("switch", "aggregator", "ports", "workers", "jobs", "queues")


def load_config(path: Path | str) -> Config:
    """Reads and checks a configuration file.

    :raises ConfigError: with every broken rule, or because the file cannot be read.
    """
    return parse_config(read_file(path), source=str(path))


def parse_config(text: str, source: str = "config") -> Config:
    """Parses and checks a configuration text. `source` names it in messages.

    :raises ConfigError: with every broken rule.
    """
    tree, repeated = load_tree(text, source)
    return config_of(tree, Log(problems=repeated), source)


def config_of(tree: Node, log: Log, source: str) -> Config:
    """`parse_config` for a tree. `log` has the problems found so far."""
    draft = _draft(tree, log)
    for problem in validate_draft(draft):
        log.add(problem.path, problem.field, problem.value, problem.rule)
    if log.problems or draft.switch is None or draft.aggregator is None:
        raise log.error(source)
    return Config(
        switch=draft.switch,
        aggregator=draft.aggregator,
        ports=draft.ports or (),
        workers=tuple(worker for worker in draft.workers if worker),
        jobs=tuple(job for job in draft.jobs if job),
        queues=tuple(queue for queue in draft.queues if queue),
    )


def _draft(tree: Node, log: Log) -> Draft:
    root = MappingReader(tree, "", log)
    switch, aggregator = root.node("switch"), root.node("aggregator")
    ports = root.integers("ports")
    workers, jobs = root.items("workers"), root.items("jobs")
    queues = root.items("queues") if root.has("queues") else None
    root.finish(_ROOT_KEYS)
    known = each(workers, "workers", log, read_worker)
    weights = {worker.name: worker.weight for worker in known if worker}
    return Draft(
        switch=read_switch(switch, "switch", log) if switch else None,
        aggregator=read_aggregator(aggregator, "aggregator", log) if aggregator else None,
        ports=ports,
        workers=known,
        jobs=each(jobs, "jobs", log, partial(read_job, weights=weights)),
        names_unparsed=names_in(workers),
        queues=each(queues, "queues", log, read_queue),
    )
