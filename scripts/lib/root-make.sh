#!/usr/bin/env bash
# root-make.sh DIR: makes the root of root.sh in DIR (renamed by the caller when it is complete).
# Mirrors and proxies are those of this machine's apt configuration; GSTZC_MIRROR names another mirror.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
. "$here/common.sh"
. "$here/root.sh"
dir=$1

# the first Debian archive that apt knows, in whatever release this machine is
mirror=${GSTZC_MIRROR:-$(apt-get indextargets --format '$(REPO_URI) $(COMPONENT) $(RELEASE)' 'Created-By: Packages' \
  | awk '$2 == "main" && $1 ~ /debian\/?$/ && $3 !~ /-/ { print $1; exit }')}
[ -n "$mirror" ] || die "no Debian mirror in this machine's apt configuration; name one: GSTZC_MIRROR=URL $0"

options=$(mktemp)
trap 'rm -f "$options"' EXIT
apt-config dump --format '%F "%v";%n' Acquire \
  | grep -E '^Acquire::(https?::Proxy|Check-Valid-Until|Check-Date|Retries)\b' > "$options" || true

run=(mmdebstrap --mode=root --variant=minbase --components=main --aptopt="$options")
if is_usual_root; then
  include=$( { packages build; packages fuzz; packages lab; } | paste -sd, -)
  run+=(--include="$include" --customize-hook="bash '$here/root-kernel.sh' \"\$1\" $(packages kernel | tr '\n' ' ')"
    trixie "$dir" "deb $mirror trixie main" "deb $mirror trixie-backports main")
else
  # mirrors renew that suite's Release file at other times than its validity asks for
  printf 'Acquire::Check-Valid-Until "false";\n' >> "$options"
  include=$(packages build | paste -sd, -)
  # shellcheck disable=SC2016
  run+=(--include="$include" --customize-hook="echo $root_suite"' > "$1/etc/gst-zerocopy-root"'
    "$root_suite" "$dir" "deb $mirror $root_suite main")
fi
# An ordinary user is root in a user namespace of its own, the one that enter_root uses, so that the files are its own.
as_root_of_tree env LC_ALL=C "${run[@]}"
