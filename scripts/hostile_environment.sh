#!/usr/bin/env bash
# Run the tests of `make test` in four environments that are unlike a developer's, for example
#
#     scripts/hostile_environment.sh            # all of them
#     scripts/hostile_environment.sh user       # one: signals, user, variables or python
#
# signals: SIGINT, SIGHUP and SIGTERM ignored as after nohup, umask 077, random order
# user: no root, no HOME, another time zone, LANG=C
# variables: HOME that cannot be written, Turkish, proxies, variables of CI and providers, 64 MB of /dev/shm
# python: the newest Python for which all packages resolve
#
# Needs root on Debian, to become another user and to mount. Nothing is tried twice: one failure fails. Prints a line
# for each environment, and ends with 1 if one failed.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly newest=3.14
readonly nobody=65534
environments=(signals user variables python)
[ $# = 0 ] || environments=("$@")
if [ "$(id -u)" != 0 ]; then
  echo "scripts/hostile_environment.sh needs root, to become another user and to mount /dev/shm." >&2
  exit 77
fi
work=$(mktemp -d "${TMPDIR:-/var/tmp}/hostile.XXXXXX")
readonly work
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# A copy of the checkout with an environment of its own, owned by the user who runs the tests.
copy() { # NAME PYTHON OWNER
  local tree=$work/$1
  mkdir "$tree"
  git ls-files -z --cached --others --exclude-standard | xargs -0 cp --parents --target-directory "$tree" --no-dereference
  git -C "$tree" init --quiet
  git -C "$tree" add --all
  [ ! -d .tools ] || cp -r .tools "$tree/"
  UV_LINK_MODE=copy make --directory "$tree" --silent setup PYTHON="$2"
  chown -R "$3:$3" "$tree"
}

# The interpreter of the checkout's environment if another user may start it, else the system's, else one from packages.
shared_python() {
  local interpreter
  for interpreter in "$(readlink -f .venv/bin/python)" /usr/bin/python3; do
    # By env: setpriv itself still starts what only root may.
    if setpriv --reuid=$nobody --regid=$nobody --clear-groups env "$interpreter" -c \
      'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$interpreter"
      return
    fi
  done
  scripts/debian_python.sh 3.12
}

as_nobody() { # TREE VARIABLE=VALUE...
  local tree=$1
  shift
  mkdir -p "$tree.tmp"
  chown $nobody:$nobody "$tree.tmp"
  (cd "$tree" && setpriv --reuid=$nobody --regid=$nobody --clear-groups \
    env -i PATH="$PATH" TMPDIR="$tree.tmp" "$@" .venv/bin/pytest --no-second-try)
}

signals() {
  local seed=$RANDOM
  echo "signals: pytest --shuffle $seed"
  (
    trap '' INT HUP TERM
    umask 077
    exec .venv/bin/pytest --no-second-try --shuffle "$seed"
  )
}

user() {
  copy user "$(shared_python)" $nobody
  as_nobody "$work/user" TZ=Asia/Kathmandu LANG=C
}

variables() {
  copy variables "$(shared_python)" $nobody
  mkdir "$work/home"
  chmod 555 "$work/home"
  export -f as_nobody
  unshare --mount env tree="$work/variables" home="$work/home" nobody=$nobody bash -euo pipefail -c '
    mount -t tmpfs -o size=64m,mode=1777 tmpfs /dev/shm
    as_nobody "$tree" HOME="$home" LANG=tr_TR.UTF-8 NO_COLOR=1 FORCE_COLOR=1 CI=true \
      HTTP_PROXY=http://127.0.0.1:9 HTTPS_PROXY=http://127.0.0.1:9 ALL_PROXY=http://127.0.0.1:9 \
      GITHUB_ACTIONS=true GITHUB_REPOSITORY=other/other GITHUB_EVENT_NAME=pull_request GITHUB_SHA=0000 \
      GITHUB_TOKEN=none GITHUB_OUTPUT=/nowhere/output GITHUB_STEP_SUMMARY=/nowhere/summary \
      OPENAI_API_KEY=none OPENAI_BASE_URL=http://127.0.0.1:9 ANTHROPIC_API_KEY=none ANTHROPIC_BASE_URL=http://127.0.0.1:9'
}

python() {
  local interpreter
  interpreter=$(command -v "python$newest" || scripts/debian_python.sh "$newest")
  copy python "$interpreter" 0
  (cd "$work/python" && .venv/bin/pytest --no-second-try)
}

if [ $# = 1 ]; then
  "$1"
  exit
fi
failed=()
for environment in "${environments[@]}"; do
  echo "== $environment"
  # In a process of its own: bash ignores errors of a function whose result is tested.
  "scripts/${0##*/}" "$environment" || failed+=("$environment")
done
[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
echo "passed: ${environments[*]}"
