# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Log events of the soft switch only. ``python -m softswitch.events`` prints their table in docs/watch.md."""

from __future__ import annotations

import sys

from commonlib.events import SOFT, LogEvent, as_markdown


class SwitchEvent(LogEvent):
    """An event: its name in log lines, who logs it, its fields, and its meaning."""

    # fmt: off
    ENGINE_CHOSEN = ("engine_chosen", (SOFT,), "engine", "which engine runs")
    OPTION_IGNORED = ("option_ignored", (SOFT,), "option", "an option of bmv2 was given that has no effect here")
    CONTROLLER_JOINED = (
        "controller_joined", (SOFT,), "role election_id primary",
        "a P4Runtime client has taken part in an election",
    )
    CONTROLLER_LEFT = ("controller_left", (SOFT,), "", "a P4Runtime client's stream has ended")
    CALL_REFUSED = ("call_refused", (SOFT,), "code reason sender", "a P4Runtime call was refused")
    COMMANDS_TAKEN = ("commands_taken", (SOFT,), "at", "commands of `softswitch-cli` are taken there from now on")
    PROGRAM_LOADED = ("program_loaded", (SOFT,), "", "a P4Runtime client has loaded a program")
    ROWS_WRITTEN = ("rows_written", (SOFT,), "updates", "a P4Runtime client has written table rows or other state")
    MESSAGE_DROPPED = ("message_dropped", (SOFT,), "kind", "a message to a P4Runtime client was dropped")
    FRAMES_DROPPED = ("frames_dropped", (SOFT,), "port reason", "a port drops frames of a kind; told once")
    PACKET_TRACED = ("packet_traced", (SOFT,), "", "a line of what happened to a packet (`--log-level trace`)")
    FILE_ENDED = ("file_ended", (SOFT,), "file reason", "a trace or a capture could not be written, and has ended")
    PROGRAM_SAID = ("program_said", (SOFT,), "", "what the P4 program logs (`log_msg`)")
    # fmt: on


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in as_markdown(SwitchEvent))
