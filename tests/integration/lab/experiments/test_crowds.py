# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""The crowds of the lab connect, say nothing, or speak slowly; every listener is there and answers an honest caller."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from contextlib import ExitStack

import pytest
from sumwire_lab.experiments import crowds
from sumwire_lab.experiments.crowds import ADDRESS, STRANGER, UNGUARDED, Crowd


@pytest.mark.parametrize("listener", [*crowds.LISTENERS, UNGUARDED])
def test_an_honest_caller_is_answered(listener: str) -> None:
    with ExitStack() as stack:
        port = crowds.listen(listener, stack)
        assert crowds._asks(listener, port, 60.0)


def test_who_has_no_answer_waits_until_the_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "PATIENCE_S", 0.2)
    with socket.create_server((ADDRESS, 0)) as deaf:
        assert crowds.answer_s("service", deaf.getsockname()[1]) == 0.2


def test_those_who_connect(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowds, "_KEPT", 8)
    with socket.create_server((ADDRESS, 0), backlog=1024) as listener:
        mob, came = Crowd(listener.getsockname()[1]), Counter[str]()
        mob.connect(1000, lambda: mob.began < 50)
        listener.setblocking(False)
        for _ in range(50):
            request, (address, _) = listener.accept()
            came[address] += 1
            request.close()
    assert came == {STRANGER: 50}


@pytest.mark.parametrize("said", [b"", b"GET /x"])
def test_those_who_stay_come_again_and_say_a_byte_now_and_then(said: bytes) -> None:
    with socket.create_server((ADDRESS, 0)) as listener, ExitStack() as stack:
        mob, ends = Crowd(listener.getsockname()[1]), threading.Event()
        thread = threading.Thread(target=mob.stay, args=(4, said, lambda: not ends.is_set()))
        thread.start()
        try:
            callers = [stack.enter_context(listener.accept()[0]) for _ in range(4)]
            callers[0].close()
            callers.append(stack.enter_context(listener.accept()[0]))
            heard = b""
            while said and len(heard) < len(said) + 2:
                heard += callers[1].recv(100)
            assert heard.startswith(said + b"xx" if said else b"")
        finally:
            ends.set()
            thread.join()
        assert mob.began == 5
        if not said:
            with pytest.raises(ConnectionResetError):
                callers[1].recv(1)
