# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The list of metrics keeps Prometheus' rules for names."""

from __future__ import annotations

import json
import re
import runpy

import yaml
from commonlib.metrics import as_markdown
from helpers.paths import ROOT
from sumwire_protocol import metrics

# Prometheus gives these to every target.
RESERVED = {"job", "instance"}
# No base units, or endings that only Prometheus' own series have.
ENDINGS = ("_total", "_milliseconds", "_us", "_kilobytes", "_bits", "_percent", "_count", "_sum", "_bucket")


def test_names() -> None:
    found = metrics.metrics()
    assert len(found) > 50
    assert len({one.name for one in found}) == len(found)
    for one in found:
        assert re.fullmatch(r"sumwire_(job|switch)_[a-z_]+[a-z]", one.name)
        assert not one.name.endswith(ENDINGS)
        assert one.kind in ("counter", "gauge")
        assert one.served == one.name + ("_total" if one.kind == "counter" else "")


def test_labels() -> None:
    for one in metrics.metrics():
        assert one.labels[: 2 if one.name.startswith("sumwire_job_") else 1] in (("sumwire_job", "worker"), ("switch",))
        assert len(set(one.labels)) == len(one.labels)
        assert not RESERVED & set(one.labels)


def test_the_table_has_every_metric() -> None:
    head, rule, *rows = as_markdown(metrics.metrics())
    assert [row.split("`")[1] for row in rows] == [one.served for one in metrics.metrics()]
    assert {row.count("|") for row in (head, rule, *rows)} == {5}


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "watch.md").read_text()
    assert "\n".join(as_markdown(metrics.metrics())) in page, "python -m sumwire_protocol.metrics prints it"


# -- the dashboard -------------------------------------------------------------------------------------

DASHBOARD = ROOT / "dashboards" / "sumwire.json"
_NAME = re.compile(r"\bsumwire_(?:job|switch)_\w+")
_CHOSEN = re.compile(r"(\w+)\{(.*?)\}")


def queries() -> list[str]:
    dashboard = json.loads(DASHBOARD.read_text())
    expressions = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    assert len(expressions) > 15
    return [*expressions, *(one["query"]["query"] for one in dashboard["templating"]["list"] if one["type"] == "query")]


def test_every_metric_of_the_dashboard_exists() -> None:
    served = {one.served: one for one in metrics.metrics()}
    for query in queries():
        names = _NAME.findall(query)
        assert names, query
        assert set(names) <= set(served), query
        for name, chosen in _CHOSEN.findall(query):
            labels = set(re.findall(r'(\w+)(?:=~|!=|=)"', chosen))
            assert labels <= set(served[name].labels), query
        for name in re.findall(r"rate\((\w+)", query):
            assert served[name].kind == "counter", query


def test_alerts_are_about_metrics_and_labels_that_exist() -> None:
    served = {one.served: one for one in metrics.metrics()}
    rules = yaml.safe_load((ROOT / "dashboards" / "alerts.yml").read_text())["groups"][0]["rules"]
    for rule in rules:
        names = _NAME.findall(rule["expr"])
        assert names and set(names) <= set(served), rule["alert"]
        assert all(served[name].kind == "counter" for name in re.findall(r"rate\((\w+)", rule["expr"]))
        shown = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert shown and all(shown <= set(served[name].labels) for name in names), rule["alert"]


def test_legends_name_labels_of_their_metric() -> None:
    served = {one.served: one for one in metrics.metrics()}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            labels = {label for name in _NAME.findall(target["expr"]) for label in served[name].labels}
            assert set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])) <= labels, panel["title"]


def test_the_dashboard_is_what_its_program_makes() -> None:
    made = runpy.run_path(str(ROOT / "dashboards" / "make.py"))["dashboard"]()
    assert json.loads(DASHBOARD.read_text()) == made, "python dashboards/make.py writes it"
