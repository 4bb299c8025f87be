#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
#
# Debian packages that Sumwire uses and pip cannot bring: Python's venv, Mininet, ethtool, iproute2.
# Installs what is missing and nothing else; without apt or root it says what to install.
set -euo pipefail

packages=()
need() { packages+=("$1"); }

python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
command -v ip >/dev/null || need iproute2
command -v ethtool >/dev/null || need ethtool
{ command -v mnexec >/dev/null && [ -e /usr/lib/python3/dist-packages/mininet/net.py ]; } || need mininet
[ "${#packages[@]}" -gt 0 ] || exit 0

echo "sumwire: installing Debian packages: ${packages[*]}"
if ! command -v apt-get >/dev/null; then
  echo "sumwire: this machine has no apt-get; install by hand: ${packages[*]}" >&2
  exit 1
fi
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || { echo "sumwire: needs root or sudo to install ${packages[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
