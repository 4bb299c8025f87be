# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Commands about multicast groups and their nodes, and about clone ("mirroring") sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from commonlib.untrusted import escaped

from softswitch.cli_door.state import Nodes
from softswitch.cli_door.values import CliCommandError, integer, wrong
from softswitch.cli_door.work import Codes, Update, Work, refused, update_of
from softswitch.errors import NotFoundError
from softswitch.p4runtime.errors import AlreadyExistsError, NotThereError
from softswitch.p4runtime.pipeline import GroupNote
from softswitch.runtime.entries import Replica

_SESSION: Final = "mirror_id, expected integer"
_GROUP: Final[Codes] = {AlreadyExistsError: "INVALID_MGID", NotThereError: "INVALID_MGRP_HANDLE"}


def _nodes(work: Work) -> Nodes:
    nodes = work.state.nodes
    nodes.follow(work.switch.groups())
    return nodes


def _write(work: Work, group: int, replicas: Sequence[Replica], update_type: int) -> None:
    if not 0 <= group < 1 << 32:
        raise refused("PRE", "INVALID_MGID", f"multicast group {group} is not in 1..65535")
    update, entity = update_of(update_type)
    message = entity.packet_replication_engine_entry.multicast_group_entry
    message.multicast_group_id = group
    message.metadata = work.pipeline.notes.groups.get(group, GroupNote()).metadata
    for replica in replicas:
        message.replicas.add(egress_port=replica.port, instance=replica.instance)
    work.write("PRE", [update], _GROUP)


def mc_mgrp_create(work: Work, words: Sequence[str]) -> None:
    group = integer(words[0], "multicast group id")
    nodes = _nodes(work)
    work.say(f"Creating multicast group {group}")
    if group in nodes.groups:  # no error in bmv2
        work.noted.append(f"multicast group {group} is there already")
        return
    _write(work, group, (), Update.INSERT)
    nodes.groups[group] = []


def mc_mgrp_destroy(work: Work, words: Sequence[str]) -> None:
    group = integer(words[0], "multicast group id")
    nodes = _nodes(work)
    work.say(f"Destroying multicast group {group}")
    _write(work, group, (), Update.DELETE)
    for handle in nodes.groups.pop(group, ()):
        nodes.nodes[handle].group = None


def _ports(words: Sequence[str]) -> tuple[list[int], str]:
    """The ports, and the map of them that is printed: a digit for each port, from the right."""
    if "|" in words:
        if words.index("|") != len(words) - 1:
            raise wrong("link aggregation groups (LAGs) are not offered: give ports")
        words = words[:-1]
    ports = []
    for word in words:
        if not (word.isascii() and word.isdecimal()) or len(word) > 3 or int(word) > 511:
            raise wrong(f"'{escaped(word)}' is not a valid port number")
        if int(word) in ports:
            raise wrong(f"Found duplicate port number '{escaped(word)}'")
        ports.append(int(word))
    shown = "".join("1" if port in ports else "0" for port in range(max(ports, default=-1), -1, -1))
    return sorted(ports), shown


def mc_node_create(work: Work, words: Sequence[str]) -> None:
    rid = integer(words[0], "rid")
    ports, shown = _ports(words[1:])
    nodes = _nodes(work)
    work.say(f"Creating node with rid {rid} , port map {shown} and lag map ")
    if not 0 <= rid < 1 << 16:
        raise refused("PRE", "ERROR", f"rid {rid} is not in 0..65535")
    work.say(f"node was created with handle {nodes.create(rid, ports)}")


def mc_node_update(work: Work, words: Sequence[str]) -> None:
    handle = integer(words[0], "node handle")
    ports, shown = _ports(words[1:])
    nodes = _nodes(work)
    work.say(f"Updating node {handle} with port map {shown} and lag map ")
    node = nodes.node(handle)
    before, node.ports = node.ports, ports
    if node.group is not None:
        try:
            _rewrite(work, nodes, node.group)
        except CliCommandError:
            node.ports = before
            raise


def _rewrite(work: Work, nodes: Nodes, group: int) -> None:
    _write(work, group, nodes.replicas(nodes.groups[group]), Update.MODIFY)


def _group(nodes: Nodes, word: str) -> int:
    group = integer(word, "multicast group id")
    if group not in nodes.groups:
        raise refused("PRE", "INVALID_MGRP_HANDLE", f"there is no multicast group {group}")
    return group


def mc_node_associate(work: Work, words: Sequence[str]) -> None:
    nodes, handle = _nodes(work), integer(words[1], "node handle")
    integer(words[0], "multicast group id")
    work.say(f"Associating node {handle} to multicast group {words[0]}")
    node, group = nodes.node(handle), _group(nodes, words[0])
    if node.group is not None:
        raise refused("PRE", "ERROR", f"node {handle} is associated to multicast group {node.group}: dissociate it")
    _write(work, group, nodes.replicas([*nodes.groups[group], handle]), Update.MODIFY)
    nodes.groups[group].append(handle)
    node.group = group


def mc_node_dissociate(work: Work, words: Sequence[str]) -> None:
    nodes, handle = _nodes(work), integer(words[1], "node handle")
    integer(words[0], "multicast group id")
    work.say(f"Dissociating node {handle} from multicast group {words[0]}")
    node, group = nodes.node(handle), _group(nodes, words[0])
    if node.group != group:
        raise refused("PRE", "ERROR", f"node {handle} is not associated to multicast group {group}")
    _leave(work, nodes, handle, group)


def _leave(work: Work, nodes: Nodes, handle: int, group: int) -> None:
    _write(work, group, nodes.replicas(each for each in nodes.groups[group] if each != handle), Update.MODIFY)
    nodes.groups[group].remove(handle)
    nodes.nodes[handle].group = None


def mc_node_destroy(work: Work, words: Sequence[str]) -> None:
    nodes, handle = _nodes(work), integer(words[0], "node handle")
    work.say(f"Destroying node {handle}")
    group = nodes.node(handle).group
    if group is not None:
        _leave(work, nodes, handle, group)
    nodes.destroy(handle)


def mc_dump(work: Work, _: Sequence[str]) -> None:
    nodes = _nodes(work)
    work.say("==========")
    work.say("MC ENTRIES")
    for group, handles in sorted(nodes.groups.items()):
        work.say("**********")
        work.say(f"mgrp({group})")
        for handle in handles:
            node = nodes.nodes[handle]
            ports = ", ".join(map(str, node.ports))
            work.say(f"  -> (L1h={handle}, rid={node.rid}) -> (ports=[{ports}], lags=[])")
    work.say("==========")
    work.say("LAGS")
    work.say("==========")


def _session(work: Work, word: str, replicas: Sequence[Replica], group: int) -> None:
    session = integer(word, _SESSION)
    work.try_device("mirroring", lambda: work.switch.set_session(session, replicas, group))
    work.pipeline.notes.sessions.pop(session, None)


def mirroring_add(work: Work, words: Sequence[str]) -> None:
    _session(work, words[0], (Replica(integer(words[1], "egress_port, expected integer"), 0),), 0)


def mirroring_add_mc(work: Work, words: Sequence[str]) -> None:
    _session(work, words[0], (), integer(words[1], "mgrp, expected integer"))


def mirroring_delete(work: Work, words: Sequence[str]) -> None:
    session = integer(words[0], _SESSION)
    work.try_device("mirroring", lambda: work.switch.delete_session(session), {NotFoundError: "SESSION_NOT_FOUND"})
    work.pipeline.notes.sessions.pop(session, None)


def mirroring_get(work: Work, words: Sequence[str]) -> None:
    session = integer(words[0], _SESSION)
    found = work.switch.sessions().get(session)
    if found is None:
        raise refused("mirroring", "SESSION_NOT_FOUND", f"there is no session {session}")
    replicas, group = found
    ports = [replica.port for replica in replicas]
    port = "None" if not ports else str(ports[0]) if len(ports) == 1 else str(ports)
    work.say(f"MirroringSessionConfig(port={port}, mgid={group or None})")
