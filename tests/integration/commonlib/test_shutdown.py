# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""A program ends whichever thread the kernel hands its signal to."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest
from commonlib.shutdown import ShutdownSignal

LIMIT_S = 20.0

# Another thread takes the signal. It gets its turn only when the main thread gives its own up, to wait.
PROGRAM = """
import _thread, signal, sys
from commonlib.shutdown import ShutdownSignal

def send():
    signal.pthread_kill(_thread.get_ident(), int(sys.argv[1]))

sys.setswitchinterval(60)
with ShutdownSignal() as ending:
    _thread.start_new_thread(send, ())
    ending.wait()
print("ended")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_another_thread_takes_ends_the_wait(number: int) -> None:
    command = [sys.executable, "-c", PROGRAM, str(int(number))]
    found = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert (found.stdout, found.returncode) == ("ended\n", 0), found.stderr


def test_set_ends_the_wait_and_no_call_of_it_is_lost() -> None:
    with ShutdownSignal() as ending:
        assert not ending.wait(0.0)
        for _ in range(100_000):  # more than a pipe holds
            ending.set()
        assert ending.wait()
        assert ending.wait(0.0)


def test_handlers_are_as_before() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with ShutdownSignal() as ending:
        thread = threading.Thread(target=ending.set)
        thread.start()
        assert ending.wait()
        thread.join()
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before
    assert signal.set_wakeup_fd(-1) == -1
