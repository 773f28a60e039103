#!/usr/bin/env bash
# Print the path of a CPython that Debian has packaged, for a machine that has no such version, for example
#
#     python=$(scripts/debian_python.sh 3.14) && "$python" --version
#
# Needs root on Debian. The packages of the first release that has the version are unpacked into one folder below
# ${TMPDIR:-/tmp}, and installed nowhere. The interpreter runs with the C library of that release, from the same folder.
# Exit code 77, and one sentence, if this machine cannot.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly version=${1:?such as 3.14}
readonly work=${TMPDIR:-/tmp}/holodeck-action-python
readonly folder=$work/$version
readonly python=$folder/usr/bin/python$version

cannot() {
  echo "This machine cannot unpack CPython $version: $1." >&2
  exit 77
}

if [ -e "$folder/complete" ]; then
  echo "$python"
  exit
fi
if [ "$(id -u)" != 0 ] || ! grep -qx 'ID=debian' /etc/os-release; then cannot "it needs root on Debian"; fi
if ! command -v debootstrap >/dev/null || ! command -v patchelf >/dev/null; then
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    debootstrap patchelf; } >&2
fi
mkdir -p "$work"
exec 9>"$work/lock"
flock 9 # one at a time
if [ -e "$folder/complete" ]; then
  echo "$python"
  exit
fi

# The mirror of this machine.
mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sed -n 1p)
readonly mirror
found=
for release in trixie forky sid; do
  rm -rf "$folder"
  if debootstrap --download-only --variant=minbase "--include=python$version-venv,ca-certificates" \
    "$release" "$folder/packages" "$mirror" /usr/share/debootstrap/scripts/sid >"$work/$version.log" 2>&1; then
    found=$release
    break
  fi
done
[ -n "$found" ] || { rm -rf "$folder"; cannot "no release of Debian at $mirror has it"; }
mkdir -p "$folder"/usr/{bin,lib,lib64,sbin}
ln -s usr/{bin,lib,lib64,sbin} "$folder/"
for package in "$folder"/packages/var/cache/apt/archives/{python3,lib,openssl,zlib1g,tzdata,media-types}*.deb; do
  dpkg-deb --extract "$package" "$folder"
done
rm -rf "$folder/packages"
libraries=$(dirname "$(find "$folder/usr/lib" -maxdepth 2 -name 'libc.so.6')")
loader=$(find "$libraries" -maxdepth 1 -name 'ld-linux*.so*' | sed -n 1p)
readonly libraries loader
patchelf --set-interpreter "$loader" --force-rpath --set-rpath "$libraries" "$python"
# Debian's pip for new environments is in a folder outside of Python's own.
sed -i "s#'/usr/share/python-wheels#'$folder/usr/share/python-wheels#" "$folder/usr/lib/python$version"/_sysconfigdata_*.py
"$python" -c 'import bz2, ctypes, lzma, sqlite3, ssl, zlib' || cannot "it does not start"
touch "$folder/complete"
echo "$python"
