#!/usr/bin/env bash
# Build both images from the unmodified Dockerfile and print the command that stands for `docker`, for example
#
#     engine=$(scripts/build_image.sh my-tag) && "$engine" run --rm my-tag --version
#
# usage: scripts/build_image.sh [TAG]       build TAG and TAG-slim; the builders print to a log, shown when they fail
#        scripts/build_image.sh --check     only say whether this machine can (exit code 0), or why not (77)
#        scripts/build_image.sh --layout FOLDER
#                                           build both from nothing but downloads and the base, with the times of
#                                           SOURCE_DATE_EPOCH, and write them to FOLDER/complete and FOLDER/slim, which
#                                           are OCI layouts. A Docker engine needs a builder of its own for it
#                                           (docker buildx create --use)
#
# With a Docker engine that is `docker build`. Without one, root on Debian builds with buildah and runs with podman
# (installed when missing), on a stand-in for the base image: a minimal Debian and this machine's own CPython of the same
# version. Everything is kept, for the next time, in one folder of about 4 GB below ${TMPDIR:-/tmp}.
#
# Environment: PYDIR, the prefix of the CPython to put into the stand-in (default: found by itself).
set -euo pipefail
cd "$(dirname "$0")/.."

readonly cannot=77
base=$(sed -n 's/^ARG BASE=//p' Dockerfile | head -n 1) # such as python:3.12-slim
version=${base#python:} version=${version%%-*}
readonly base version
readonly work=${TMPDIR:-/tmp}/holodeck-action-image
readonly certificates=/etc/ssl/certs/ca-certificates.crt

has() { command -v "$1" >/dev/null; }

# Print the prefix of a CPython of the base's version: the one on the PATH, or one installed beside the default one.
find_python() {
  local candidate prefix
  for candidate in "${PYDIR:+$PYDIR/bin/python3}" "python$version" \
    "$(python3 -c 'import sys; print(sys.base_prefix)')"/../*"$version"*/bin/python3; do
    prefix=$("$candidate" -c "import sys
if sys.version_info[:2] == tuple(map(int, '$version'.split('.'))) and sys.base_prefix != '/usr':
    print(sys.base_prefix)" 2>/dev/null) || continue
    if [ -n "$prefix" ]; then
      echo "$prefix"
      return
    fi
  done
  return 1
}

# Print what keeps this machine from building an image, or nothing.
obstacle() {
  if has docker && docker info >/dev/null 2>&1; then return; fi
  if [ "$(id -u)" != 0 ] || ! has apt-get || ! grep -qx 'ID=debian' /etc/os-release; then
    echo "there is no Docker engine, and the way without one needs root on Debian"
  elif ! find_python >/dev/null; then
    echo "there is no Docker engine, and no CPython $version for a stand-in of $base: set PYDIR to its prefix"
  fi
}

build_with_docker() {
  {
    docker build --tag "$1" .
    docker build --tag "$1-slim" --target slim .
  } >"$log" 2>&1
  command -v docker
}

write_layouts_with_docker() {
  local -a options=(--build-arg "SOURCE_DATE_EPOCH=$epoch" --provenance=false --sbom=false)
  local output=tar=false,rewrite-timestamp=true
  {
    docker buildx build --no-cache "${options[@]}" --output "type=oci,dest=$1/complete,$output" .
    docker buildx build "${options[@]}" --target slim --output "type=oci,dest=$1/slim,$output" .
  } >"$log" 2>&1
}

install_builders() {
  if has buildah && has podman && has runc && has debootstrap; then return; fi
  echo "build_image.sh: installing buildah, podman and debootstrap" >&2
  apt-get update -qq
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    buildah podman runc debootstrap netavark uidmap fuse-overlayfs
}

# Write a `docker` of our own into a folder, podman with its storage there.
write_engine() {
  cat >"$1/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$1/storage"
runroot = "$1/run"
CONF
  cat >"$work/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1000:1000"]
[engine]
runtime = "runc"
CONF
  cat >"$1/engine" <<ENGINE
#!/bin/sh
export CONTAINERS_STORAGE_CONF="$1/storage.conf" CONTAINERS_CONF="$work/containers.conf" TMPDIR="$work/tmp"
exec "\${ENGINE_PROGRAM:-podman}" "\$@"
ENGINE
  chmod +x "$1/engine"
  # Installers that bring their own certificates must use the machine's while building.
  printf '[global]\ncert = %s\n' "$certificates" >"$work/pip.conf"
  echo 'system-certs = true' >"$work/uv.toml"
}

# Import the stand-in for the base image unless it is there: laid out as the real one, without tests and bytecode.
make_base() {
  local python codename
  python=$(find_python)
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  if "$work/engine" image exists "localhost/$base"; then return; fi
  echo "build_image.sh: making a stand-in for $base (debootstrap, about a minute)" >&2
  rm -rf "$work/rootfs"
  debootstrap --variant=minbase --include=ca-certificates "$codename" "$work/rootfs"
  rm -rf "$work"/rootfs/var/lib/apt/lists/* "$work"/rootfs/var/cache/apt/*/*.deb "$work"/rootfs/var/cache/apt/*.bin
  rm -rf "$work"/rootfs/usr/share/{doc,locale,man}/*
  printf 'path-exclude=/usr/share/%s/*\n' doc locale man >"$work/rootfs/etc/dpkg/dpkg.cfg.d/docker"
  echo 'DPkg::Post-Invoke { "rm -f /var/cache/apt/archives/*.deb /var/cache/apt/*.bin"; };' \
    >"$work/rootfs/etc/apt/apt.conf.d/docker-clean"
  tar -C "$work/rootfs" -c . | "$work/engine" import - "localhost/debian:$codename-slim"
  rm -rf "$work/rootfs"
  cat >"$work/base.Dockerfile" <<BASE
FROM localhost/debian:$codename-slim
RUN --mount=type=bind,target=/python apt-get update && apt-get install -y --no-install-recommends \
    binutils ca-certificates libbz2-1.0 libexpat1 libffi8 liblzma5 libreadline8 libsqlite3-0 libssl3 netbase tzdata zlib1g \
 && cp -a /python/bin /python/lib /usr/local/ && ldconfig && cd /usr/local/bin \
 && rm -rf ../lib/python$version/test ../lib/python$version/site-packages/* \
 && find . -type f -exec grep -lI '^#!.*python' {} + | xargs rm -f \
 && find .. \( -name python$version -o -name '*.so' -o -name '*.so.*' \) -type f -exec strip {} + \
 && python$version -m ensurepip && ln -sf python$version python3 && ln -sf python3 python && ln -sf pip3 pip \
 && find ../lib \( -name '*.pyc' -o -name '*.a' \) -delete \
 && apt-get purge -y --autoremove binutils && rm -rf /var/lib/apt/lists/* \
 && python -c 'import bz2, ctypes, lzma, readline, sqlite3, ssl, zlib'
BASE
  ENGINE_PROGRAM=buildah "$work/engine" bud --isolation chroot --pull-never --format docker \
    --tag "localhost/$base" --file "$work/base.Dockerfile" "$python"
}

# Build a stage with an engine, "" for the last one: an image named after it. Further arguments are options of the build.
build_stage() {
  local engine=$1 tag=$2 stage=$3
  shift 3
  ENGINE_PROGRAM=buildah "$engine" bud --isolation chroot --layers --pull-never \
    --volume "$certificates:$certificates:ro" --volume "$work/pip.conf:/etc/pip.conf:ro" \
    --volume "$work/uv.toml:/etc/uv/uv.toml:ro" "$@" ${stage:+--target "$stage"} --tag "$tag${stage:+-$stage}" .
}

prepare() {
  install_builders
  exec 9>"$work/lock"
  flock 9 # one build at a time
  write_engine "$work"
  make_base
  ENGINE_PROGRAM=buildah "$work/engine" rm --all # what a build that was interrupted left
}

build_without_docker() {
  {
    prepare
    for stage in builder slim-builder slim ""; do # the builders have names of their own so that the clean-up keeps them
      build_stage "$work/engine" "$1" "$stage" --format docker
    done
    "$work/engine" image prune --force
  } >"$log" 2>&1
  echo "$work/engine"
}

# Remove a folder of an engine, with what is mounted there.
remove_storage() {
  sed -n "s#^[^ ]* \($1/[^ ]*\) .*#\1#p" /proc/mounts | sort -r | xargs -r umount
  rm -rf "$1"
}

# In a storage of its own, where nothing is but the base.
write_layouts_without_docker() {
  local fresh=$work/fresh
  {
    prepare
    remove_storage "$fresh" # of a build that was interrupted
    mkdir "$fresh"
    write_engine "$fresh"
    "$work/engine" save "localhost/$base" | "$fresh/engine" load
    for stage in slim ""; do
      build_stage "$fresh/engine" fresh "$stage" --format oci --timestamp "$epoch"
    done
    "$fresh/engine" push localhost/fresh "oci:$1/complete"
    "$fresh/engine" push localhost/fresh-slim "oci:$1/slim"
    remove_storage "$fresh"
  } >"$log" 2>&1
}

reason=$(obstacle)
if [ -n "$reason" ]; then
  echo "This machine cannot build the image: $reason." >&2
  exit "$cannot"
fi
if [ "${1:-}" = --check ]; then exit 0; fi

mkdir -p "$work/tmp"
[ -O "$work" ] || { echo "build_image.sh: $work belongs to somebody else" >&2 && exit 1; }
readonly log=$work/build.log
explain() {
  local status=$?
  if [ "$status" != 0 ]; then
    tail -n 40 "$log" >&2
    echo "build_image.sh: failed; the whole log is $log" >&2
  fi
}
trap explain EXIT
with=without
if has docker && docker info >/dev/null 2>&1; then with=with; fi
if [ "${1:-}" = --layout ]; then
  epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
  readonly epoch
  mkdir -p "$2"
  "write_layouts_${with}_docker" "$(realpath "$2")"
else
  "build_${with}_docker" "${1:-holodeck-action}"
fi
