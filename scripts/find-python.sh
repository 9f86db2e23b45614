#!/bin/sh
# Prints the path of a Python that can run dpwgan, or one sentence on stderr (exit 1).
# A candidate counts only once it has run: a pyenv shim may exist and still answer "command not found".
# PYTHON=/path/to/python names the only candidate.
set -u

check='
import struct, sys, sysconfig
if not (3, 10) <= sys.version_info < (3, 14) or sys.implementation.name != "cpython":
    sys.exit(3)
if sysconfig.get_platform() != "linux-x86_64" or struct.calcsize("P") != 8:
    sys.exit(4)
try:
    import ensurepip, venv
except ImportError:
    sys.exit(5)
print(sys.executable)
'

fail() {
    echo "$1" >&2
    exit 1
}

set_if_new() { # the most telling reason is the one of the first candidate that is nearly right
    [ -n "$reason" ] || reason=$1
}

reason=""
if [ -n "${PYTHON:-}" ]; then
    set -- "$PYTHON"
else
    pyenv=${PYENV_ROOT:-${HOME:-/nonexistent}/.pyenv}/versions
    # 3.11 first: it has all of the engines. Then the newest.
    set -- python3.11 python3.13 python3.12 python3.10 python3 python "$pyenv"/3.11.*/bin/python \
        "$pyenv"/3.13.*/bin/python "$pyenv"/3.12.*/bin/python "$pyenv"/3.10.*/bin/python
fi

for candidate in "$@"; do
    found=$("$candidate" -I -c "$check" 2>/dev/null)
    case $? in
        0)
            [ -n "$found" ] || continue
            echo "$found"
            exit 0
            ;;
        4) set_if_new "dpwgan's pinned TensorFlow is there for Linux on x86-64 only: use the container image on other machines." ;;
        5) set_if_new "$candidate cannot make virtual environments: install its venv module (on Debian and Ubuntu the package python3-venv) and run make again." ;;
    esac
done

[ -z "$reason" ] || fail "$reason"
if [ -n "${PYTHON:-}" ]; then
    fail "PYTHON=$PYTHON is not a Python 3.10 to 3.13 that runs, and dpwgan needs one of these."
fi
fail "dpwgan needs Python 3.10, 3.11, 3.12 or 3.13 and found none: install one, or name it with make PYTHON=/path/to/python3.11."
