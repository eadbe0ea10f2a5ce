# Sourced by ./run, ./test and .ci/run: a private virtual environment in .venv, made or brought up to date.
# shellcheck shell=bash

say() {
  if [ -t 1 ]; then printf '\033[1m== %s\033[0m\n' "$*"; else printf '== %s\n' "$*"; fi
}

die() {
  printf '%s\n' "$*" >&2
  exit 1
}

# As root on Debian: installs packages. Elsewhere: says the line that would.
debian_install() {
  command -v apt-get > /dev/null || die "Please install: $*"
  [ "$(id -u)" = 0 ] || die "Missing Debian packages. As root: apt-get install -y $*"
  say "Installing Debian packages: $*"
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y -qq --no-install-recommends "$@" > /dev/null 2>&1 || {
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "$@" > /dev/null
  }
}

find_python() {
  local candidate
  for candidate in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
    [ -n "$candidate" ] && command -v "$candidate" > /dev/null || continue
    "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || continue
    echo "$candidate"
    return
  done
  die "Tailrace needs Python 3.11 or newer; PYTHON=/path/to/python3 names one."
}

# uv reads no pip configuration: hand it what pip was told about indexes and certificates.
uv_environment() {
  local index
  index=$("$venv/bin/python" -m pip config get global.index-url 2> /dev/null || true)
  index=${PIP_INDEX_URL:-$index}
  [ -z "$index" ] || export UV_DEFAULT_INDEX="${UV_DEFAULT_INDEX:-$index}"
  [ -z "${PIP_CERT:-}" ] || export SSL_CERT_FILE="${SSL_CERT_FILE:-$PIP_CERT}"
  [ -z "${PIP_FIND_LINKS:-}" ] || export UV_FIND_LINKS="${UV_FIND_LINKS:-$PIP_FIND_LINKS}"
  export UV_PYTHON_DOWNLOADS=never
}

# setup_venv EXTRAS: EXTRAS is "" or a comma list of the extras in pyproject.toml. Leaves the path in $venv.
setup_venv() {
  local extras=$1 python wanted target
  venv=$PWD/.venv
  unset PYTHONDONTWRITEBYTECODE # compiled modules are a third of the start time
  wanted=$(cat pyproject.toml constraints.txt | sha256sum | cut -c1-16)
  # An environment for the tests serves ./run as well.
  for target in "${extras%%,*}" dev; do
    if [ "$(cat "$venv/.tailrace-${target:-run}" 2> /dev/null)" = "$wanted" ]; then return; fi
  done
  if [ ! -x "$venv/bin/python" ]; then
    python=$(find_python)
    say "Creating a virtual environment in .venv with $("$python" --version)"
    "$python" -m venv "$venv" > /dev/null 2>&1 || {
      rm -rf "$venv"
      debian_install python3-venv
      "$python" -m venv "$venv"
    }
  fi
  say "Installing Tailrace and what it needs${extras:+ (with $extras)} into .venv"
  target=.${extras:+[$extras]}
  uv_environment
  if "$venv/bin/python" -m pip install -q -c constraints.txt pip uv &&
    "$venv/bin/uv" pip install -q --python "$venv/bin/python" --compile-bytecode -c constraints.txt -e "$target"; then
    :
  else
    say "uv could not do it; trying pip"
    "$venv/bin/python" -m pip install -q -c constraints.txt -e "$target" ||
      die "The packages of pyproject.toml could not be installed; the lines above say why."
  fi
  case $extras in dev*) echo "$wanted" > "$venv/.tailrace-dev" ;; esac
  echo "$wanted" > "$venv/.tailrace-run"
}

# add_extra NAME: one more extra into the environment that setup_venv made; for what only one test layer needs.
add_extra() {
  venv=$PWD/.venv
  uv_environment
  "$venv/bin/uv" pip install -q --python "$venv/bin/python" -c constraints.txt -r pyproject.toml --extra "$1" ||
    "$venv/bin/python" -m pip install -q -c constraints.txt -e ".[$1]"
}
