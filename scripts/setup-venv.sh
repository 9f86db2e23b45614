#!/bin/sh
# Makes the virtual environment that the Makefile uses: setup-venv.sh run|evaluation|dev DIRECTORY
# Each kind holds the ones before it. A stamp inside records what was installed and where; it is written last, so an
# interrupted install is done again, and a finished one is left alone until the requirements change.
set -eu

kind=$1
venv=$2
case $kind in
    run) kinds="run" ;;
    evaluation) kinds="run evaluation" ;;
    dev) kinds="run evaluation dev" ;;
    *) echo "usage: setup-venv.sh run|evaluation|dev DIRECTORY" >&2; exit 2 ;;
esac
cd "$(dirname "$0")/.."
unset PYTHONHOME PYTHONPATH

files_of() { # KIND
    case $1 in
        run) echo "requirements.txt" ;;
        evaluation) echo "requirements.txt requirements-evaluation.txt" ;;
        dev) echo "requirements.txt requirements-evaluation.txt requirements-dev.txt" ;;
    esac
}
stamp_of() { # KIND; the folder counts too: console scripts hold its path
    # shellcheck disable=SC2046 # names without blanks
    { echo "$(pwd) $venv $1"; cat $(files_of "$1"); } | sha256sum | cut -d ' ' -f 1
}
is_stamped() { # KIND
    [ -f "$venv/stamp-$1" ] && [ "$(cat "$venv/stamp-$1")" = "$(stamp_of "$1")" ]
}
write_stamp() { # KIND
    stamp_of "$1" >"$venv/stamp-$1.tmp"
    mv "$venv/stamp-$1.tmp" "$venv/stamp-$1"
}
install() { # FILE; jsonpath-rw, which mlcroissant asks for, has no wheel
    "$venv/bin/python" -m pip install --quiet --progress-bar off --disable-pip-version-check --no-compile \
        --require-hashes --only-binary :all: --no-binary jsonpath-rw -r "$1"
    installed=yes
}
installed=

if ! is_stamped run || ! "$venv/bin/python" -c "" 2>/dev/null; then
    python=$(sh scripts/find-python.sh)
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        echo "$venv is there and is not a virtual environment: name another one with make VENV=..." >&2
        exit 1
    fi
    echo "Making $venv with $python: 700 to 900 MB to fetch the first time, one to three minutes." >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
    install requirements.txt
    write_stamp run
fi
for more in $kinds; do
    is_stamped "$more" && continue
    case $more in
        evaluation) echo "Adding what the evaluation and the audit need to $venv, about 150 MB." >&2 ;;
        dev) echo "Adding the tools for tests and checks to $venv, about 150 MB." >&2 ;;
    esac
    rm -f "$venv/stamp-$more"
    install "requirements-$more.txt"
    write_stamp "$more"
done
if [ -n "$installed" ]; then
    # pip compiles with one core, and packages' own tests too, a fifth of all. They hold files for other Pythons and
    # templates, which fail, as they do with pip.
    "$venv/bin/python" -m compileall -qq -j 0 -x 'site-packages/.*/tests/' "$venv/lib" || true
fi
