#!/usr/bin/env bash
# Run the plug-in's tests on Python 3.10 with the stock release fairseq 0.12.2. The first run creates
# .venv-stock, which downloads several gigabytes. Not part of the checks.
#
#   PYTHON=python3.10 bash scripts/test_stock_fairseq.sh [pytest arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv="${STOCK_VENV:-.venv-stock}"

if ! "$venv/bin/python" -c 'import fairseq, fairseq_ssl, matplotlib, pytest, scipy, transformers' 2>/dev/null; then
  "${PYTHON:-python3.10}" -m venv --clear "$venv"
  pip=("$venv/bin/python" -m pip install --disable-pip-version-check)
  "${pip[@]}" "pip<24.1" "setuptools<70" wheel # later versions of pip reject the metadata of omegaconf
  "${pip[@]}" --constraint scripts/constraints.txt torch numpy
  # With build isolation fairseq would not find torch and would not build its extensions.
  "${pip[@]}" "fairseq==0.12.2" pytest hypothesis
  "${pip[@]}" --constraint scripts/constraints.txt scipy --editable ".[bert,ctranslate2,noise,plot]"
fi
export PATH="$PWD/$venv/bin:$PATH" OMP_NUM_THREADS=1
[[ "$venv" == /* ]] && export PATH="$venv/bin:$PATH"
# the layers that import fairseq
exec python -m pytest tests/plugin tests/unit/plugin/test_patches.py \
  tests/unit/{analysis,checkpoints,criterions,data,generation,inference,models,modules,optim} "$@"
