# shellcheck shell=sh
# Sourced by the other scripts, which have set $root. Standard sh, and no process is started but cmp
# once all is in place, so that it costs a few milliseconds only.

# need_environment LOCK...: makes $root/.venv hold what these lock files ask for, with llama.cpp compiled as
# setup.py does it now.
need_environment() {
    for asked in "$@" scripts/llama-cpp.cmake; do
        [ -x "$root/.venv/bin/python" ] && cmp -s "$root/$asked" "$root/.venv/installed/$asked" && continue
        set_up "$@"
        return
    done
}

set_up() {
    find_python
    "$python" -I "$root/scripts/setup.py" "$@" || exit
}

# find_python: sets $python. No newer one than these: the locked packages have no wheels for it.
find_python() {
    for python in python3 python3.14 python3.13 python3.12 python3.11 python; do
        "$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null && return
    done
    echo "Baton needs Python 3.11 to 3.14 and found none: install one, for example python3.13, and run this again." >&2
    exit 1
}
