# Helpers of the scripts in this folder: messages, timed steps, tool checks. Source it; bash only.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${GSTZC_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gst-zerocopy}
export GSTZC_CACHE=$cache

say () { printf '%s\n' "gst-zerocopy: $*" >&2; }
die () { say "error: $*"; exit 1; }

# step WHAT CMD…: runs CMD with its output in a log, says what it does and how long it took; on failure the end of the log
step () {
  local what=$1 log start=$EPOCHREALTIME rc=0; shift
  mkdir -p "$cache"
  log=$(mktemp "$cache/step.XXXXXX")
  say "$what …"
  if [ -n "${GSTZC_VERBOSE:-}" ]; then "$@" >&2 || rc=$?; else "$@" > "$log" 2>&1 || rc=$?; fi
  if [ "$rc" != 0 ]; then
    tail -n 40 "$log" >&2
    rm -f "$log"
    say "$what: failed with status $rc after $(seconds_since "$start") s"
    return "$rc"
  fi
  rm -f "$log"
  say "$what: $(seconds_since "$start") s"
}

# EPOCHREALTIME has the locale's decimal sign
seconds_since () { LC_ALL=C awk -v a="${1/,/.}" -v b="${EPOCHREALTIME/,/.}" 'BEGIN { printf "%.1f", b - a }'; }

am_root () { [ "$(id -u)" = 0 ]; }

# need TOOL PACKAGE WHY: has TOOL, or installs PACKAGE (as root, announced), or says how to
need () {
  command -v "$1" > /dev/null && return
  if am_root && command -v apt-get > /dev/null; then
    step "install the package $2 ($3)" install_packages "$2" && command -v "$1" > /dev/null && return
  fi
  die "$1 is missing: it $3. Install it with: sudo apt-get install $2"
}

# installs packages on this machine: the caller announces it
install_packages () {
  DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@" && return
  apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "$@"
}
