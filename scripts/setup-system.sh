#!/usr/bin/env bash
# SPDX-FileCopyrightText: 2026 The Sumwire authors
# SPDX-License-Identifier: Apache-2.0
#
# Installs the Debian packages that Sumwire needs and pip cannot bring: Python's venv, Mininet, ethtool, iproute2, and
# clang for the native engine. It installs only what is missing; without apt or root it prints what to install.
# Everything but clang is required. Without clang the soft switch runs its Python engine.
# Clang's sanitizers (Debian: libclang-rt-16-dev) are not installed, because only `make fuzz` uses them; nor is what only
# `make fuzz-c` does (clang-14, libclang-rt-14-dev, llvm-14).
set -euo pipefail
cd "$(dirname "$0")/.."

packages=()
need() { packages+=("$1"); }

python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv
command -v ip >/dev/null || need iproute2
command -v ethtool >/dev/null || need ethtool
{ command -v mnexec >/dev/null && [ -e /usr/lib/python3/dist-packages/mininet/net.py ]; } || need mininet
# The soft switch looks for a compiler in this way too.
compiler=yes
PYTHONPATH=native python3 -B -c 'import nativelib; nativelib.find_compiler(wide_bitint=True)' 2>/dev/null || compiler=
[ "${#packages[@]}" = 0 ] && [ "$compiler" ] && exit 0

wanted="${packages[*]}"
[ "$compiler" ] || wanted="${wanted:+$wanted }clang-16 (or later)"
give_up() {
  echo "sumwire: $1: $wanted" >&2
  [ "${#packages[@]}" = 0 ] || exit 1
  echo "sumwire: without it the soft switch runs its slower Python engine" >&2
  exit 0
}
command -v apt-get >/dev/null || give_up "this machine has no apt-get; install by hand"
as_root=()
if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || give_up "needs root or sudo to install"
  as_root=(sudo)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
if [ ! "$compiler" ]; then
  for version in 16 19 18 17; do
    if [ -n "$(apt-cache search --names-only "^clang-$version\$")" ]; then
      need "clang-$version"
      compiler=yes
      break
    fi
  done
  [ "$compiler" ] || echo "sumwire: no clang 16 or later to install: the soft switch will run its Python engine" >&2
fi
[ "${#packages[@]}" -gt 0 ] || exit 0
echo "sumwire: installing Debian packages: ${packages[*]}"
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null
