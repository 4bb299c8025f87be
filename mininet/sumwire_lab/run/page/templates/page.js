// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// What is under the pointer, or has the focus, in words: elements with data-tip, and the points of plots.
"use strict";
(() => {
  const tip = document.getElementById("tip");

  function show(text, x, y) {
    tip.textContent = text;
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, x + 12), document.documentElement.clientWidth - box.width - 8);
    const above = y - box.height - 12;
    tip.style.left = left + "px";
    tip.style.top = (above > 8 ? above : y + 16) + "px";
  }

  function hide() {
    tip.hidden = true;
    document.querySelectorAll(".cursor").forEach((line) => line.remove());
  }

  function nearest(points, x) {
    return points.reduce((best, point) => (Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best));
  }

  function overPlot(plot, event) {
    const svg = plot.querySelector("svg");
    const all = JSON.parse(document.getElementById("points").textContent)[plot.dataset.plot];
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    const found = Object.entries(all).filter(([, points]) => points.length).map(([name, points]) => [name, nearest(points, x)]);
    if (!found.length) return;
    const at = found.reduce((a, b) => (Math.abs(a[1][0] - x) <= Math.abs(b[1][0] - x) ? a : b))[1][0];
    hide();
    const line = document.createElement("div");
    line.className = "cursor";
    line.style.left = (at / svg.viewBox.baseVal.width) * box.width + "px";
    plot.append(line);
    show(found.map(([name, point]) => name + ": " + point[2]).join("\n"), event.clientX, event.clientY);
  }

  document.addEventListener("pointermove", (event) => {
    const told = event.target.closest("[data-tip]");
    const plot = event.target.closest("[data-plot]");
    if (told) show(told.dataset.tip, event.clientX, event.clientY);
    else if (plot) overPlot(plot, event);
    else hide();
  });
  document.addEventListener("focusin", (event) => {
    const told = event.target.closest("[data-tip]");
    if (!told) return;
    const box = told.getBoundingClientRect();
    show(told.dataset.tip, box.left, box.top);
  });
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
})();
