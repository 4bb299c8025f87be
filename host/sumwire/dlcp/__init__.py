# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
"""DLCP: packets that know what they carry (arXiv 2008.08445; as MLT, NSDI 2024).

* :mod:`sumwire.dlcp.tags`: priority and drop class of every packet, and the policy that decides them;
* :mod:`sumwire.dlcp.lanes`: a job whose priority classes each have slots and a sequence of their own;
* :mod:`sumwire.dlcp.sync`: DDP's hook over lanes, and how a lapped straggler follows;
* :mod:`sumwire.dlcp.packet_loss`, :mod:`sumwire.dlcp.profile`: how much loss a training script stands;
* :mod:`sumwire.dlcp.inspect`: what a model's tensors get; :mod:`sumwire.dlcp.exactness`: what loss costs a sum.
"""
