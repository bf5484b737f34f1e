# shellcheck shell=bash disable=SC2034
# What every script of tools/ shares; sourced, never run. Sets `root`, the top folder of the checkout.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

die() { # MESSAGE...: ends the script with exit code 1
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

note() { printf '== %s\n' "$*" >&2; }

build_jobs() { # parallel compilations: one per core, and per GiB of memory
  local cores gib
  cores=$(nproc)
  gib=$(awk '/^MemTotal:/ { print int($2 / 1048576) }' /proc/meminfo)
  echo $((gib < 1 ? 1 : gib < cores ? gib : cores))
}
