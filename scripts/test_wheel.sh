#!/usr/bin/env bash
# Build the sdist, from it the wheel, and install that into a new environment without torch. Outside
# the repository, every text tool then runs on toy files, the types are visible to mypy, and a command
# that needs torch says what to install. Needs an index of packages; half a minute.
#
#   bash scripts/test_wheel.sh           what is committed or not, without ignored files
#   PYTHON=python3.12 bash scripts/test_wheel.sh
set -euo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
python="${PYTHON:-python3}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH VIRTUAL_ENV

fail() {
  printf 'test_wheel: %s\n' "$*" >&2
  exit 1
}
trap 'fail "line $LINENO failed: $(cat log 2>/dev/null)"' ERR
step() { printf '==> %s\n' "$*" >&2; }
has() { # FILE TEXT: the file contains the text
  grep -qF -- "$2" "$1" || fail "$1 does not contain '$2': $(head -c 300 "$1")"
}
lines() { # NUMBER FILE...
  local file
  for file in "${@:2}"; do
    [[ "$(wc -l <"$file")" == "$1" ]] || fail "$file has $(wc -l <"$file") lines; expected $1"
  done
}

step "building the sdist and the wheel"
mkdir "$work/source" "$work/dist"
(cd "$root" && git ls-files -z --cached --others --exclude-standard |
  tar --null --ignore-failed-read -T - -c 2>/dev/null) | tar -x -C "$work/source"
"$python" -m venv "$work/venv"
export PATH="$work/venv/bin:$PATH"
install=(python -m pip install --quiet --disable-pip-version-check --constraint "$root/scripts/constraints.txt")
"${install[@]}" setuptools wheel mypy
build() { # sdist|wheel FOLDER
  (cd "$2" && python -c "from setuptools import build_meta as b; b.build_$1('$work/dist')") >"$work/build.log" 2>&1 ||
    fail "the $1 is not built: $(tail -n 3 "$work/build.log")"
}
build sdist "$work/source"
tar -xzf "$work/dist"/*.tar.gz -C "$work"
sdist="$(echo "$work"/fairseq_ssl-*)"
for file in README.md LICENSE CHANGELOG.md CITATION.cff pyproject.toml fairseq_ssl/py.typed fairseq_ssl/report/page.html; do
  [[ -e "$sdist/$file" ]] || fail "the sdist does not contain $file"
done
[[ ! -e "$sdist/tests" ]] || fail "the sdist contains tests"
build wheel "$sdist"
(cd "$root" && git ls-files fairseq_ssl && git ls-files --others --exclude-standard fairseq_ssl) |
  while read -r file; do [[ ! -e "$root/$file" ]] || echo "$file"; done | sort >"$work/expected"
python -m zipfile -l "$work/dist"/*.whl | awk '/^fairseq_ssl\// {print $1}' | sort >"$work/shipped"
diff "$work/expected" "$work/shipped" >&2 || fail "the wheel does not have the files of the package"

step "installing the wheel"
"${install[@]}" "$work/dist"/*.whl
mkdir "$work/here"
cd "$work/here"
for package in torch fairseq; do
  ! python -c "import $package" 2>/dev/null || fail "the base install contains $package"
done

step "imports without torch"
python - <<'PYTHON'
import fairseq_ssl
from fairseq_ssl import edits, errors, filters, io, metrics, noise, report, rerank, text
from fairseq_ssl import analysis, checkpoints, inference, learned_filter, signature

assert "here" not in fairseq_ssl.__file__
for package in (edits, filters, metrics, noise, report, rerank, text):
    assert all(hasattr(package, name) for name in package.__all__), package
PYTHON

step "commands on toy files"
fairseq-ssl --version >/dev/null
python - <<'PYTHON' >commands
from fairseq_ssl.cli.main import COMMANDS

print("\n".join(COMMANDS))
PYTHON
while read -r command; do
  fairseq-ssl "$command" --help >help || fail "$command --help fails"
  has help "usage: fairseq-ssl $command"
done <commands
python "$root/examples/common/toy_sentences.py" clean --lines 200
fairseq-ssl noise clean --method direct,negatives --seed 3 -o noisy 2>log
lines 200 noisy
cmp -s clean noisy && fail "noise changed nothing"
fairseq-ssl filter noisy clean --filter clean,duplicates -o good.src good.trg 2>log
cmp -s <(wc -l <good.src) <(wc -l <good.trg) || fail "filter wrote sides of different lengths"
for metric in accuracy bleu chrf; do
  fairseq-ssl score "$metric" clean --reference clean >shown 2>log
  has shown 100.00
done
fairseq-ssl score gleu noisy --source noisy --reference clean --format json >shown 2>log
has shown '"signature"'
fairseq-ssl edits dictionary noisy clean -o edits.txt --label-dict labels.txt >log 2>&1
fairseq-ssl edits label noisy clean --dictionary edits.txt -o labels >log 2>&1
lines 200 labels
printf 'It is not so: we walk.\n' >text
fairseq-ssl tokenize text --moses en -o tokens 2>log
has tokens 'so : we walk .'
fairseq-ssl postprocess tokens --moses en >joined
cmp text joined
fairseq-ssl tokenize clean --train-truecase cases 2>log
fairseq-ssl tokenize clean --truecase cases -o cased 2>log
lines 200 cased
fairseq-ssl subwords train clean -o bpe --size 60 >log 2>&1
fairseq-ssl subwords encode bpe clean -o clean.bpe 2>log
fairseq-ssl postprocess clean.bpe --subwords sentencepiece >decoded
cmp clean decoded
fairseq-ssl tag '<BT>' clean -o tagged 2>log
has tagged '<BT> '
printf 'S-0\ta\nH-0\t-1.0\ta b\nP-0\t-1.0 -1.0\nH-0\t-2.0\ta c\nP-0\t-2.0 -2.0\n' >generated
fairseq-ssl rerank merge one=generated --subwords none -o nbest 2>log
echo 'a c' >reference
fairseq-ssl rerank tune nbest --reference reference --metric chrf --folds 0 -o weights.json >log 2>&1
fairseq-ssl rerank apply nbest --weights weights.json >best 2>log
lines 1 best
mkdir pairs
for split in train valid test; do cp clean "pairs/$split.en" && cp noisy "pairs/$split.de"; done
fairseq-ssl position-data vanilla pairs positions -s en -t de >log 2>&1
fairseq-ssl report before=noisy after=clean -o page.html --source noisy --reference clean 2>log
has page.html '</html>'
[[ -e "$(fairseq-ssl user-dir)/py.typed" ]] || fail "py.typed is not installed"
fairseq-ssl doctor >shown || fail "doctor: $(grep -B1 PROBLEM shown)"
has shown "fairseq-ssl[train]"
for shell in bash zsh; do fairseq-ssl completion "$shell" >"completion.$shell"; done
bash -n completion.bash

step "commands that need torch"
needs_torch() { # COMMAND...
  local code=0
  fairseq-ssl "$@" >log 2>&1 || code=$?
  ((code == 1)) || fail "$* ends with $code: $(cat log)"
  lines 1 log
  has log "pip install 'fairseq-ssl[train]'"
}
needs_torch average kept -o average.pt
needs_torch export kept --to ctranslate2 -o exported
needs_torch back-translate clean --model kept --data-dir pairs -o translated
needs_torch classify predict clean --model kept --data-dir pairs -o predicted

step "types"
cat >typed.py <<'PYTHON'
from fairseq_ssl.metrics import Gleu

reveal_type(Gleu.__init__)
Gleu(1)
PYTHON
mypy --strict typed.py >types || true
has types 'Revealed type is "def (self:'
has types 'error: '
if grep -q 'import-untyped\|import-not-found' types; then fail "mypy finds no types: $(cat types)"; fi

printf 'passed: %s\n' "$(basename "$work/dist"/*.whl)"
