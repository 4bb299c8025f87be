#!/bin/sh
# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
#
# install.sh ROLE WHEEL: installs Sumwire for one role in a bare Debian, as root, in /opt/sumwire. The images of the
# Containerfile are made by it.
#
#   aggregator   the software aggregator: numpy, and the compiled kernels of the wheel
#   switch       the soft switch with P4Runtime, and clang, which compiles the P4 program
#   controller   the controller
set -eu
role=$1 wheel=$2

case $role in
  aggregator) extra="" packages="" ;;
  switch) extra="[switch]" packages="clang-16 iproute2" ;;
  controller) extra="[controller]" packages="" ;;
  *) echo "install.sh: role $role: known are aggregator, switch, controller" >&2; exit 2 ;;
esac

export DEBIAN_FRONTEND=noninteractive
apt-get update -qq
# Without quotes: a list.
apt-get install -qq --yes --no-install-recommends python3 python3-venv $packages
rm -rf /var/lib/apt/lists/*
python3 -m venv /opt/sumwire
/opt/sumwire/bin/pip install --quiet --no-cache-dir "$wheel$extra"
/opt/sumwire/bin/pip check
id sumwire >/dev/null 2>&1 || useradd --system --no-create-home --shell /usr/sbin/nologin sumwire
install -d -o sumwire -g sumwire -m 0700 /var/cache/sumwire
