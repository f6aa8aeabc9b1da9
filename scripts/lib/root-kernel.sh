#!/usr/bin/env bash
# root-kernel.sh ROOT META…: installs the newest kernel of trixie-backports into ROOT, with the headers and the source of the
# same version: the laboratory builds vkms and sw_sync from them. Refuses kernels older than 6.19 (vkms without YUV formats).
set -euo pipefail
root=$1
shift
in_root () { chroot "$root" env DEBIAN_FRONTEND=noninteractive LC_ALL=C "$@"; }

version=$(in_root apt-cache depends linux-image-amd64/trixie-backports \
  | sed -nE 's/^ *Depends: linux-image-([0-9].*)$/\1/p' | head -n 1)
[ -n "$version" ] || { echo "trixie-backports has no linux-image-amd64: is it on the mirror?" >&2; exit 1; }
series=$(printf '%s' "$version" | grep -oE '^[0-9]+\.[0-9]+')
if [ "$(printf '%s\n6.19\n' "$series" | sort -V | head -n 1)" != 6.19 ]; then
  echo "trixie-backports has Linux $version; the laboratory needs 6.19 or newer" >&2
  exit 1
fi
names=()
for meta in "$@"; do
  case $meta in
    linux-source) names+=("linux-source-$series") ;;
    *) names+=("${meta%-amd64}-$version") ;;
  esac
done
in_root apt-get install -y -q --no-install-recommends -t trixie-backports "${names[@]}"

# image, headers and source have to be of one version, or the modules would not fit the kernel
versions=$(in_root dpkg-query -W -f '${Version}\n' "${names[@]}" | sort -u)
[ "$(printf '%s\n' "$versions" | wc -l)" = 1 ] || {
  echo "the mirror's kernel packages are of different versions: $(in_root dpkg-query -W "${names[@]}" | tr '\n' ' ')" >&2
  exit 1
}
printf '%s\n' "$version" > "$root/etc/gst-zerocopy-kernel"
