# Where things are built and run: on this machine (Debian 13 and newer) or in the made root. Source after common.sh and root.sh.
# shellcheck shell=bash disable=SC2154

gst_required=1.26

# native: this machine's own packages; made: the made root. GSTZC_ENV=native|made decides, else what the machine has.
environment () {
  if [ -n "${GSTZC_ENV:-}" ]; then printf '%s\n' "$GSTZC_ENV"
  elif ! is_usual_root && ! in_made_root; then printf 'made\n'
  elif in_made_root || native_candidate; then printf 'native\n'
  else printf 'made\n'; fi
}

in_made_root () { [ -e /etc/gst-zerocopy-kernel ] || [ -e /etc/gst-zerocopy-root ]; }

# this machine's GStreamer, installed or to be had from its package archive, is new enough
native_candidate () {
  local version
  version=$(pkg-config --modversion gstreamer-1.0 2> /dev/null || apt_candidate)
  if [ -z "$version" ] && am_root && command -v apt-get > /dev/null; then # package lists were never fetched
    step "fetch this machine's package lists" apt-get update -q && version=$(apt_candidate)
  fi
  [ -n "$version" ] && [ "$(printf '%s\n%s\n' "$version" "$gst_required" | sort -V | head -n 1)" = "$gst_required" ]
}

apt_candidate () {
  LC_ALL=C apt-cache policy libgstreamer1.0-dev 2> /dev/null | awk '$1 == "Candidate:" && $2 != "(none)" { print $2 }'
}

missing_native_packages () {
  local package
  for package in $(packages build); do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || printf '%s ' "$package"
  done
}

# makes the chosen environment usable; sets $env_kind, $build_name and $build
prepare_environment () {
  local missing
  env_kind=$(environment)
  case $env_kind in
    native)
      if ! in_made_root; then
        native_candidate || die "this machine's packages have no GStreamer >= $gst_required (Debian 13 has). \
Leave the choice to the scripts (no GSTZC_ENV): they build in a Debian 13 root of their own"
        missing=$(missing_native_packages)
        if [ -n "$missing" ]; then
          am_root || die "packages are missing: $missing. Install them with: sudo apt-get install --no-install-recommends $missing
(or build in a Debian 13 root of the scripts' own: GSTZC_ENV=made)"
          # shellcheck disable=SC2086
          step "install packages on this machine: $missing" install_packages $missing || die "apt-get failed (its log is above)"
        fi
      fi ;;
    made) ensure_root ;;
    *) die "GSTZC_ENV is '$env_kind': native or made" ;;
  esac
  build_name=$env_kind
  is_usual_root || [ "$env_kind" != made ] || build_name=$root_suite
  build=$top/build/$build_name
}

# runs a command where we build, as a child
in_env () {
  if [ "$env_kind" = made ]; then (enter_root "$@"); else env CCACHE_DIR="$cache/ccache" CCACHE_NOHASHDIR=1 "$@"; fi
}

# ensure_build [plugins|demo|asan|tsan|bench|fuzz]: configures and builds into $build. plugins: only what a pipeline needs, without
# tests; demo: and the demo; asan, tsan: the tests with AddressSanitizer and UBSan, or with ThreadSanitizer; bench: the
# measuring programs, optimised; fuzz: the fuzz targets, with clang and sanitizers
ensure_build () {
  local kind=${1:-} options=(-Dwerror=true) targets=() compiler=() stamp what=gst-zerocopy
  case $kind in
    plugins) targets=(plugins) kind='' what="the plugins" ;;
    demo) targets=(plugins demo-programs) kind='' what="the plugins and the demo" ;;
  esac
  [ "$build_name" = made ] || [ -n "${CI:-}" ] || options=() # a newer compiler than ours may warn of more
  # GCC sees what is not there in the code that its sanitizers add; and optimising that takes more time than it saves
  case $kind in asan | tsan) options=(-Doptimization=1 -Dc_args=-g1 -Dcpp_args=-g1) ;; esac
  build=$top/build/$build_name${kind:+-$kind}
  case $kind in
    asan)
      options+=(-Db_sanitize=address,undefined -Db_lundef=false -Dlab=disabled -Dcuda=disabled)
      what="gst-zerocopy with sanitizers" ;;
    tsan)
      options+=(-Db_sanitize=thread -Db_lundef=false -Dlab=disabled)
      targets=(tsan-programs)
      what="gst-zerocopy with ThreadSanitizer" ;;
    bench)
      options+=(-Dbuildtype=release -Dbench=enabled)
      targets=(bench-programs)
      if is_usual_root; then
        options+=(-Dlab=enabled)
        targets+=(bench-display)
      else # no laboratory there; libgstcuda's interface is not stable, and that of Debian 13 is the one tried
        options+=(-Dlab=disabled -Dcuda=disabled)
      fi
      what="the benchmarks" ;;
    fuzz)
      # clang warns of other things than the compiler that the warnings are kept clean for
      options=(-Db_sanitize=address,undefined -Db_lundef=false -Dtests=disabled -Dlab=disabled -Dcuda=disabled -Dfuzz=enabled)
      targets=(fuzz-programs)
      compiler=(CC="ccache clang" CXX="ccache clang++")
      what="the fuzz targets" ;;
  esac
  stamp=$env_kind; [ "$env_kind" != made ] || stamp=$(root_dir)
  if [ "$(cat "$build/.made-in" 2> /dev/null)" != "$stamp" ]; then # another root: nothing in there can be trusted
    rm -rf "$build"
    mkdir -p "$top/build"
    step "configure $what" in_env env "${compiler[@]}" meson setup "${options[@]}" "$build" "$top" || die "meson failed"
    printf '%s\n' "$stamp" > "$build/.made-in"
  fi
  step "build $what" in_env "${no_aslr[@]}" meson compile -C "$build" -j "$(nproc)" "${targets[@]}" \
    || die "the build failed (its log is above)"
}

# ThreadSanitizer's programs need the addresses that its shadow memory leaves over. Kernels that randomise more bits than
# it expects (vm.mmap_rnd_bits) put libraries elsewhere; where a container forbids the switch, they have to do with what they get.
no_aslr=()
without_aslr () { if in_env setarch -R true 2> /dev/null; then no_aslr=(setarch -R); fi; }
