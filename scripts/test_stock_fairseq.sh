#!/usr/bin/env bash
# The plug-in's tests on Python 3.10 with the stock release, fairseq 0.12.2.
# Makes .venv-stock the first time, which downloads some gigabytes; not part of the checks.
#
#   PYTHON=python3.10 bash scripts/test_stock_fairseq.sh [pytest's arguments]
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
venv="${STOCK_VENV:-.venv-stock}"

if ! "$venv/bin/python" -c 'import fairseq, fairseq_ssl, pytest, scipy, transformers' 2>/dev/null; then
  "${PYTHON:-python3.10}" -m venv --clear "$venv"
  pip=("$venv/bin/python" -m pip install --disable-pip-version-check)
  "${pip[@]}" "pip<24.1" "setuptools<70" wheel # later pips refuse the metadata of its omegaconf
  "${pip[@]}" --constraint scripts/constraints.txt torch numpy
  # With isolation it sees no torch, and builds none of the extensions its archive lacks.
  "${pip[@]}" "fairseq==0.12.2" pytest hypothesis
  # Here these extras have no fairseq of their own.
  "${pip[@]}" --constraint scripts/constraints.txt scipy --editable ".[bert,ctranslate2,fairseq,noise]"
fi
export PATH="$PWD/$venv/bin:$PATH" OMP_NUM_THREADS=1
[[ "$venv" == /* ]] && export PATH="$venv/bin:$PATH"
# The layers that touch fairseq; the text tools never do.
exec python -m pytest tests/plugin tests/unit/plugin/test_patches.py \
  tests/unit/{analysis,checkpoints,criterions,data,generation,inference,models,modules,optim} "$@"
