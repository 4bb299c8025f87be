# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""Plays networks in ns-3: a JSON list of cells on standard input, a list of what came of them in the last line.

It runs in an environment of ns-3's own, where nothing of Sumwire is. See other_simulator.py for the cells' fields.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ns import ns

# What is called for each packet is C++, which the bindings compile.
_PEERS = """
#include "ns3/network-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"
namespace sumwire {
using namespace ns3;
struct Peer {
  Ptr<Socket> sender, listener, taker;
  uint64_t total, part, written = 0, received = 0, earlier = 0;
  int before;
  double begin, ended = -1;
};
std::vector<Peer> peers;
void write(size_t k) {
  Peer &peer = peers[k];
  if (Simulator::Now().GetSeconds() < peer.begin) return;
  uint64_t most = peer.total;
  if (peer.before >= 0) most = std::min(most, (peers[peer.before].received / peer.part + 1) * peer.part);
  while (peer.written < most) {
    const uint64_t next = std::min<uint64_t>(most - peer.written, 1u << 20);
    const int took = peer.sender->Send(Create<Packet>(next));
    if (took <= 0) break;
    peer.written += took;
  }
}
void take(size_t k, Ptr<Socket> socket) {
  Peer &peer = peers[k];
  while (Ptr<Packet> packet = socket->Recv()) {
    if (!packet->GetSize()) break;
    peer.received += packet->GetSize();
  }
  if (peer.received >= peer.total && peer.ended < 0) peer.ended = Simulator::Now().GetSeconds();
  for (size_t other = 0; other < peers.size(); other++)
    if (peers[other].before == static_cast<int>(k)) write(other);
  bool all = true;
  for (const Peer &one : peers) all = all && one.ended >= 0;
  if (all) Simulator::Stop();
}
void open(Ptr<Node> from, Ptr<Node> to, Ipv4Address at, uint64_t total, uint64_t part, int before,
          double begin) {
  const size_t k = peers.size();
  const uint16_t port = 1000 + k;
  Peer peer{Socket::CreateSocket(from, TcpSocketFactory::GetTypeId()),
            Socket::CreateSocket(to, TcpSocketFactory::GetTypeId()), nullptr, total, part};
  peer.before = before;
  peer.begin = begin;
  peer.listener->Bind(InetSocketAddress(Ipv4Address::GetAny(), port));
  peer.listener->Listen();
  peer.listener->SetAcceptCallback(
      MakeNullCallback<bool, Ptr<Socket>, const Address &>(),
      Callback<void, Ptr<Socket>, const Address &>([k](Ptr<Socket> socket, const Address &) {
        peers[k].taker = socket;
        socket->SetRecvCallback(Callback<void, Ptr<Socket>>([k](Ptr<Socket> one) { take(k, one); }));
      }));
  peer.sender->SetSendCallback(Callback<void, Ptr<Socket>, uint32_t>([k](Ptr<Socket>, uint32_t) { write(k); }));
  peer.sender->Bind();
  // Not before the simulation has begun: queues are not ready earlier.
  Simulator::Schedule(Seconds(0), [k, at, port] { peers[k].sender->Connect(InetSocketAddress(at, port)); });
  peers.push_back(peer);
}
void run(double begin_s, double stop_s, Ptr<RateErrorModel> losses) {
  // A nanosecond later, so that rounding makes no begin too early.
  for (size_t k = 0; k < peers.size(); k++)
    Simulator::Schedule(Seconds(peers[k].begin) + NanoSeconds(1), [k] { write(k); });
  Simulator::Schedule(Seconds(begin_s), [losses] { losses->Enable(); });
  Simulator::Stop(Seconds(stop_s));
  Simulator::Run();
  Simulator::Destroy();
}
}
"""
ns.cppyy.cppdef(_PEERS)
_SIM = ns.cppyy.gbl.sumwire


def set_defaults(cell: dict[str, Any]) -> None:
    ns.Config.Reset()
    ns.RngSeedManager.SetRun(cell["seed"])
    red = {"MinTh": cell["mark"], "MaxTh": cell["mark"], "MaxSize": f"{cell['queue']}B", "QW": 1, "UseEcn": True,
           "UseHardDrop": False, "Gentle": False, "MeanPktSize": 1500}  # fmt: skip
    tcp = {"SndBufSize": 1 << 29, "RcvBufSize": 1 << 29, "SegmentSize": cell["segment"]}
    defaults = {
        "ns3::TcpL4Protocol::SocketType": f"ns3::{cell['control']}",
        **{f"ns3::RedQueueDisc::{name}": value for name, value in red.items()},
        **{f"ns3::TcpSocket::{name}": value for name, value in tcp.items()},
        **cell["others"],
    }
    for name, value in defaults.items():
        ns.Config.SetDefault(name, ns.StringValue(str(value).lower() if isinstance(value, bool) else str(value)))


def connect(cell: dict[str, Any], nodes: Any, losses: Any) -> list[Any]:
    """Links each host with the switch, the last node. Returns the hosts' addresses."""
    wire, queues, addresses, ends = ns.PointToPointHelper(), ns.TrafficControlHelper(), ns.Ipv4AddressHelper(), []
    wire.SetChannelAttribute("Delay", ns.StringValue(f"{cell['delay_ns']}ns"))
    wire.SetDeviceAttribute("DataRate", ns.StringValue(f"{cell['bit_s']}bps"))
    queues.SetRootQueueDisc("ns3::RedQueueDisc")
    addresses.SetBase(ns.Ipv4Address("10.0.0.0"), ns.Ipv4Mask("255.255.255.252"))
    for host in range(cell["hosts"]):
        devices = wire.Install(nodes.Get(host), nodes.Get(cell["hosts"]))
        if cell["mark"]:
            queues.Install(devices)
        ends.append(addresses.Assign(devices).GetAddress(0))
        addresses.NewNetwork()
        for device in (devices.Get(0), devices.Get(1)):
            device.SetAttribute("ReceiveErrorModel", ns.PointerValue(losses))
            # A queue of packets in front of the wire, and with marks another one in front of it.
            device.GetQueue().SetMaxSize(ns.QueueSize("1p" if cell["mark"] else f"{cell['queue']}B"))
            if not cell["mark"]:
                device.GetNode().GetObject[ns.TrafficControlLayer]().DeleteRootQueueDiscOnDevice(device)
    ns.Ipv4GlobalRoutingHelper.PopulateRoutingTables()
    return ends


def played(cell: dict[str, Any]) -> list[float]:
    """Returns the seconds that each message took."""
    set_defaults(cell)
    _SIM.peers.clear()
    nodes = ns.NodeContainer()
    nodes.Create(cell["hosts"] + 1)
    ns.InternetStackHelper().Install(nodes)
    losses = ns.CreateObject[ns.RateErrorModel]()
    losses.SetUnit(ns.RateErrorModel.ERROR_UNIT_PACKET)
    losses.SetRate(cell["loss"])
    losses.Disable()
    ends = connect(cell, nodes, losses)
    count, part = len(cell["flows"]), cell["part"]
    for k, (source, target) in enumerate(cell["flows"]):
        before = (k - 1) % count if part else -1
        begin = cell["begin_s"] + cell["begins"][k]
        _SIM.open(nodes.Get(source), nodes.Get(target), ends[target], cell["total"], part, before, begin)
    _SIM.run(cell["begin_s"], cell["stop_s"], losses)
    return [peer.ended - peer.begin for peer in _SIM.peers]


if __name__ == "__main__":
    sys.stdout.write(f"\n{json.dumps([played(cell) for cell in json.load(sys.stdin)])}\n")
