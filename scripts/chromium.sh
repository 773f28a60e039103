#!/usr/bin/env bash
# Print the path of a Chromium for tests of the viewer; root on Debian installs one when there is none.
#
# usage: scripts/chromium.sh            print the path
#        scripts/chromium.sh --check    only say whether this machine can (exit code 0), or why not (77)
#
# Environment: CHROMIUM, the browser to use (default: chromium, chromium-browser or google-chrome on the PATH).
set -euo pipefail

readonly cannot=77

find_browser() {
  local name
  for name in ${CHROMIUM:-chromium chromium-browser google-chrome}; do
    command -v "$name" && return
  done
  return 1
}

can_install() {
  [ -z "${CHROMIUM:-}" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -qx 'ID=debian' /etc/os-release
}

if ! find_browser >/dev/null && ! can_install; then
  echo "This machine has no Chromium${CHROMIUM:+ called $CHROMIUM}: install one, such as Debian's package chromium." >&2
  exit "$cannot"
fi
if [ "${1:-}" = --check ]; then exit 0; fi
if ! find_browser; then
  {
    echo "chromium.sh: installing chromium"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-liberation
  } >&2
  find_browser
fi
