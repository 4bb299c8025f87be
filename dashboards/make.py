# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Writes dashboards/sumwire.json, the dashboard for Grafana: `python dashboards/make.py`.

Import it in Grafana (Dashboards, New, Import) and choose the Prometheus that reads the metrics.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from commonlib.metrics import COUNTER, PORT_DROPPED, PORT_RECEIVED_BYTES, PORT_SENT_BYTES, Metric
from sumwire_protocol import metrics as m

TARGET: Final = Path(__file__).with_name("sumwire.json")
_SOURCE: Final = {"type": "prometheus", "uid": "${source}"}
_OF_JOB: Final = '{sumwire_job=~"$job"}'
_WORKER: Final = "worker {{worker}}"
_WIDTH, _HEIGHT = 12, 8


def rate(metric: Metric, chosen: str = _OF_JOB) -> str:
    """What a counter grows by each second."""
    assert metric.kind == COUNTER
    return f"rate({metric.served}{chosen}[$__rate_interval])"


def panel(title: str, unit: str, queries: Sequence[tuple[str, str]], what: str) -> dict[str, Any]:
    """A panel of lines. Each query is an expression and the name of its lines."""
    return {
        "title": title,
        "description": what,
        "type": "timeseries",
        "datasource": _SOURCE,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + number), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for number, (expression, legend) in enumerate(queries)
        ],
    }


PANELS: Final = (
    panel(
        "Sent, against the line rate",
        "percentunit",
        [(f"{rate(m.SENT_BYTES)} / {m.HOST_LINE_RATE.served}{_OF_JOB}", _WORKER)],
        "Share of the rate of each worker's link that it sends. Empty where the rate is not known.",
    ),
    panel("Sent", "Bps", [(rate(m.SENT_BYTES), _WORKER)], "Bytes per second that each worker sends, with headers."),
    panel("Received", "Bps", [(rate(m.RECEIVED_BYTES), _WORKER)], "Bytes per second that each worker receives."),
    panel("Operations", "ops", [(rate(m.OPERATIONS), _WORKER)], "Operations per second."),
    panel(
        "Time in operations",
        "percentunit",
        [(rate(m.OPERATION_S), _WORKER)],
        "Share of the time, waiting included. A straggler has the lowest line: all others wait for it.",
    ),
    panel(
        "Time of the codec",
        "percentunit",
        [(rate(m.ENCODE_S), f"encode, {_WORKER}"), (rate(m.DECODE_S), f"decode, {_WORKER}")],
        "Share of the time that encoding and decoding take.",
    ),
    panel("In flight", "short", [(f"{m.IN_FLIGHT.served}{_OF_JOB}", _WORKER)], "Chunks that wait for their results."),
    panel(
        "Sent again",
        "pps",
        [(rate(m.RESENT), f"{_WORKER}, {{{{cause}}}}")],
        "Packets per second: quick (overtaken, or asked for) or by timeout.",
    ),
    panel(
        "Missing from results",
        "short",
        [(rate(m.LEFT_OUT), f"left out, {_WORKER}"), (f"sum({rate(m.MISSING)})", "contributions, over all workers")],
        "Chunks per second whose results lack this worker's contribution, and contributions that any result lacks.",
    ),
    panel(
        "Fall-back",
        "short",
        [(f"{m.FALLEN_BACK.served}{_OF_JOB}", _WORKER)],
        "1 while the process group takes the switch's place.",
    ),
    panel(
        "Verdicts",
        "pps",
        [(rate(m.VERDICTS, ""), "{{switch}}, {{verdict}}")],
        "Packets per second that a switch admits, by what it decides for them.",
    ),
    panel(
        "Refused",
        "pps",
        [(f"{rate(m.REFUSED, '')} > 0", "{{switch}}, {{reason}}")],
        "Packets per second that a switch refuses, by reject reason.",
    ),
    panel(
        "Virtual queues",
        "pps",
        [(rate(m.QUEUE_PACKETS, '{decision!="pass"}'), "port {{port}}, class {{drop_class}}, {{decision}}")],
        "Packets per second that are dropped, cut or marked, by drop class.",
    ),
    panel(
        "Ports",
        "Bps",
        [
            (rate(PORT_RECEIVED_BYTES, ""), "{{switch}} port {{port}} in"),
            (rate(PORT_SENT_BYTES, ""), "{{switch}} port {{port}} out"),
        ],
        "Bytes per second at the ports of soft switches.",
    ),
    panel(
        "Frames lost at ports",
        "pps",
        [(f"{rate(PORT_DROPPED, '')} > 0", "{{switch}} port {{port}}, {{cause}}")],
        "Frames per second, by cause.",
    ),
    panel(
        "Switches",
        "short",
        [(m.UP.served, "{{switch}} answers"), (m.IN_SYNC.served, "{{switch}} is as configured")],
        "As the controller sees them.",
    ),
)


def dashboard() -> dict[str, Any]:
    """The whole dashboard."""
    placed = [
        {"id": 1 + number, "gridPos": {"x": number % 2 * _WIDTH, "y": number // 2 * _HEIGHT, "w": _WIDTH, "h": _HEIGHT}}
        | one
        for number, one in enumerate(PANELS)
    ]
    job = {
        "name": "job",
        "label": "job",
        "type": "query",
        "datasource": _SOURCE,
        "query": {"query": f"label_values({m.JOB_INFO.served}, sumwire_job)", "refId": "job"},
        "refresh": 2,
        "includeAll": True,
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }
    source = {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"}
    return {
        "title": "Sumwire",
        "uid": "sumwire",
        "schemaVersion": 39,
        "tags": ["sumwire"],
        "time": {"from": "now-15m", "to": "now"},
        "refresh": "5s",
        "templating": {"list": [source, job]},
        "panels": placed,
    }


if __name__ == "__main__":
    TARGET.write_text(json.dumps(dashboard(), indent=1) + "\n")
