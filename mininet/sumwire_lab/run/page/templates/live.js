// SPDX-FileCopyrightText: 2026 The Sumwire authors
// SPDX-License-Identifier: Apache-2.0
// Shows what the run sends, which is the report so far. All text in it is escaped where it is made.
"use strict";
(() => {
  const state = document.getElementById("state");
  const report = document.getElementById("report");
  const events = new EventSource("/events");
  events.onmessage = (event) => {
    const now = JSON.parse(event.data);
    if (now.html) report.innerHTML = now.html;
    state.textContent = now.words || "the run has ended";
    state.dataset.state = now.last ? "ended" : "running";
    if (now.last) events.close();
  };
  events.onerror = () => {
    if (state.dataset.state === "ended") return;
    state.dataset.state = "lost";
    state.textContent = "the run is gone";
    events.close();
  };
})();
