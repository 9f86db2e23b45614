#!/bin/sh
# Makes the virtual environment that the Makefile uses: setup-venv.sh run|dev DIRECTORY
# A stamp inside it records what was installed and where; it is written last, so an interrupted install is done again,
# and a finished one is left alone until the requirements change.
set -eu

kind=$1
venv=$2
case $kind in run | dev) ;; *) echo "usage: setup-venv.sh run|dev DIRECTORY" >&2; exit 2 ;; esac
cd "$(dirname "$0")/.."
unset PYTHONHOME PYTHONPATH

stamp_of() { # the folder counts too: console scripts hold its path
    { echo "$(pwd) $venv $1"; cat "$@"; } | sha256sum | cut -d ' ' -f 1
}
run_stamp=$(stamp_of requirements.txt)
dev_stamp=$(stamp_of requirements.txt requirements-dev.txt)

is_stamped() { # KIND STAMP
    [ -f "$venv/stamp-$1" ] && [ "$(cat "$venv/stamp-$1")" = "$2" ] && "$venv/bin/python" -c "" 2>/dev/null
}
write_stamp() {
    echo "$2" >"$venv/stamp-$1.tmp"
    mv "$venv/stamp-$1.tmp" "$venv/stamp-$1"
}
install() {
    "$venv/bin/python" -m pip install --quiet --progress-bar off --disable-pip-version-check \
        --require-hashes --only-binary :all: -r "$1"
}

if [ "$kind" = run ] && is_stamped run "$run_stamp"; then exit 0; fi
if [ "$kind" = dev ] && is_stamped run "$run_stamp" && is_stamped dev "$dev_stamp"; then exit 0; fi

if ! is_stamped run "$run_stamp"; then
    python=$(sh scripts/find-python.sh)
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        echo "$venv is there and is not a virtual environment: name another one with make VENV=..." >&2
        exit 1
    fi
    echo "Making $venv with $python: about 700 MB to fetch the first time, one to three minutes." >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
    install requirements.txt
    write_stamp run "$run_stamp"
fi
if [ "$kind" = dev ]; then
    echo "Adding the tools for tests and checks to $venv." >&2
    rm -f "$venv/stamp-dev"
    install requirements-dev.txt
    write_stamp dev "$dev_stamp"
fi
