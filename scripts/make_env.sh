#!/usr/bin/env bash
# Make the virtual environment $1 with the versions of constraints.txt. GPU=1 takes PyTorch's CUDA build.
set -euo pipefail

venv=$1
python=$venv/bin/python
cpu_index=https://download.pytorch.org/whl/cpu

find_python() {
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$candidate"
            return
        fi
    done
    echo "error: no Python >= 3.11 on PATH (tried python3, python3.13, python3.12, python3.11)" >&2
    exit 2
}

reachable() {
    timeout 8 "$python" -c 'import sys, urllib.request; urllib.request.urlopen(sys.argv[1], timeout=4)' "$1" 2>/dev/null
}

# uv does not read pip's settings, so the folders of local wheels are handed on; pip takes over where uv cannot work.
install() {
    local folders=${PIP_FIND_LINKS:-}
    UV_FIND_LINKS=${folders// /,} "$python" -m uv pip install --quiet --python "$python" "$@" ||
        "$python" -m pip install -qq "$@"
}

if [[ ! -x $python ]]; then
    base=$(find_python)
    echo "making $venv with $("$base" --version)"
    "$base" -m venv "$venv"
fi
"$python" -m pip install -qq --disable-pip-version-check --constraint constraints.txt pip uv

# PyTorch first and alone: its CPU index holds old copies of other packages, and the default index a build with CUDA.
torch=$(grep '^torch==' constraints.txt)
echo "installing PyTorch and the packages of constraints.txt"
if [[ -n ${GPU:-} ]] || ! reachable "$cpu_index/"; then
    install --no-deps "$torch"
elif ! install --no-deps --index-url "$cpu_index" "$torch"; then
    echo "$cpu_index has no $torch for this machine; taking it from the default index" >&2
    install --no-deps "$torch"
fi
install --constraint constraints.txt --build-constraint constraints.txt --editable '.[local,stats,chess]' --group dev

# uv leaves byte code to the first import, and where Python may write none (PYTHONDONTWRITEBYTECODE) every short process
# would compile again what a run needs from its start. All packages together would take four times as long.
started=(numpy scipy pandas pyarrow statsmodels matplotlib cma hydra omegaconf antlr4 aiohttp rich)
site=$(echo "$venv"/lib/python3*/site-packages)
"$python" -m compileall -q -j 0 -x '/tests?/' "${started[@]/#/$site/}"
