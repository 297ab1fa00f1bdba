"""Signatures of commands: different outputs have different ones, other folders the same one."""

from __future__ import annotations

import re
import shutil
from itertools import combinations
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.filters.chain import FILTERS

LINES = """\
The council approved the budget on Monday .
she go to school , and he goes , too .
She go to school , and he goes , too .
Café , it 's the " best " one !
he were at at home , they was away .
he were at at home , they was away .
a well-known word , a <b> &amp; a &lt; b
Voilà une phrase en français , avec des mots de la langue française .
Voilà une phrase en français , avec des mots de la langue française .
"""
CORRECT = LINES.replace("go to", "goes to").replace("at at", "at").replace("a well", "a very well")
OTHER = CORRECT.replace("budget", "plan").replace("council", "Council").replace("they", "they all")
M2 = """\
S he go home
A 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0
A 0 1|||R:ORTH|||He|||REQUIRED|||-NONE-|||1
A 3 3|||M:PUNCT|||.|||REQUIRED|||-NONE-|||1
"""
FILES = {
    "text": LINES,
    "corrected": CORRECT,
    "other": OTHER,
    "english": "on Monday the council met\n" * 50,
    "typos": "on monday the counsil met\n",
    "suffixes": "walk\twalks\n",
    "bpe": "▁a ▁b c <sep> ▁<unk>\n▁d &amp; ▁e ( f )\n",
    "counts": "the 30\nbudget 2\nhe 10\n",
    "counts2": "home 30\naway 2\n",
    "sets": "home\thouse room\nhe\tshe\n",
    "sets2": "home\tpalace\n",
    "gold.m2": M2,
    "nbest": "0 ||| a b ||| s= 1 t= 2\n0 ||| b ||| s= 2 t= 1\n",
    "v.vec": "3 2\na 1 0\nb 0.9 0.2\nc 0 1\n",
    "v2.vec": "3 2\na 0 1\nb 0.9 0.2\nc 0 1\n",
    "s1": "a a\n",
    "s2": "b c\n",
    "s3": "c c\n",
    "s4": "c b\n",
}
KEEPING = {
    "clean": "clean:min=11",
    "max-length": "max-length:source=10",
    "langid": "langid:source=en",
}
"""Options of filters that keep all lines by default."""
CASES = {
    "noise text --jobs 1 --method": (
        *("direct", "direct:mask=0.4", "shuffle:mean=0.4", "learner", "negatives"),
        *("learner:listed=true", "negatives:delete=0.3", "characters:rate=0.3", "direct,shuffle"),
        "shuffle:mean=0.3:std=0.01:sigma=2,negatives:distance=9,characters:rate=0.2",
        "shuffle:mean=0.3:std=0.01:sigma=2,negatives:distance=9,characters:rate=0.3",
        *("direct --seed 2", "negatives --counts counts"),
        *("negatives --counts counts2", "confusion:mean=0.9 --confusion-sets sets"),
        *("confusion:mean=0.9 --confusion-sets sets2", "learner --learner-errors errors.json"),
        "learner --learner-errors errors2.json",
    ),
    "filter text --jobs 1 --filter": (
        *(KEEPING.get(name, name) for name in FILTERS if name not in ("encoding", "identical")),
        *("clean:max=9", "clean:max=9,duplicates", "langid:source=en,clean:max=9,duplicates"),
    ),
    "tokenize text --moses": (
        *("en", "fr", "en --no-escape", "en --normalize", "en --aggressive-dash-splits"),
    ),
    "tag": ("<BT> text", "<FT> text"),
    "tokenize text --truecase": ("case", "case2", "case --moses en"),
    "spelling correct typos --counts": ("spell", "spell2"),
    "subwords train text --size": (
        *("80", "70", "80 --tags <BT>", "60 --model-type unigram", "80 --character-coverage 0.99"),
        "40 --kind subword-nmt",
    ),
    "subwords encode": ("spm.model text", "spm2.model text"),
    "m2 to-text gold.m2": (*("", "--annotator 1", "--annotator 1 --types R:ORTH"),),
    "postprocess bpe --subwords": (
        *("sentencepiece", "sentencepiece --replace-unk X", "sentencepiece --moses en"),
        *("none --detruecase", "sentencepiece --detruecase", "sentencepiece --drop <sep>"),
    ),
    "rerank apply nbest": ("--weight s=1", "--weight t=1", "--weight s=1 --nbest"),
    "rerank post-ensemble s1 s2 s3 s4 --vectors": ("v.vec", "v2.vec"),
    "edits dictionary text corrected --jobs 1": (
        *("", "--size 1", "--max-ngram 1", "--transforms none", "--transforms suffixes"),
    ),
    "edits label text other --jobs 1 --dictionary": ("edits", "edits2"),
    "learner-errors text corrected --min-count": ("1", "2"),
    "confusion-sets --jobs 1": ("text --min-count 1", "text --min-count 2"),
}
"""Options of each command."""
PREPARED = (
    *("tokenize text --train-truecase case", "tokenize other --train-truecase case2"),
    *("spelling count english -o spell", "spelling count corrected -o spell2"),
    *("subwords train text --size 80 -o spm", "subwords train text --size 70 -o spm2"),
    "edits dictionary text corrected -o edits --jobs 1",
    "edits dictionary text corrected --size 1 -o edits2 --jobs 1",
    "learner-errors text corrected --min-count 1 -o errors.json",
    "learner-errors text other --min-count 1 -o errors2.json",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the inputs of the commands."""
    folder = tmp_path_factory.mktemp("signatures")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for line in PREPARED:
            assert main(line.split()) == 0
    return folder


def run(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[str, bytes]:
    """Run a command in the current folder. Return its signature and its output."""
    shutil.rmtree("made", ignore_errors=True)
    capsys.readouterr()
    assert main([*line.split(), "-o", "made/out"]) == 0
    shown = re.findall(r"^.*\|version:.*$", "".join(capsys.readouterr()), re.M)
    outputs = [path for path in sorted(Path("made").glob("out*")) if path.suffix != ".json"]
    return shown[-1], b"".join(path.read_bytes() for path in outputs)


@pytest.mark.parametrize("command", CASES)
def test_different_outputs_have_different_signatures(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(folder)
    results = {options: run(f"{command} {options}", capsys) for options in CASES[command]}
    assert len({output for _, output in results.values()}) > 1
    for (one, output), (other, other_output) in combinations(results.values(), 2):
        assert one != other or output == other_output


def test_signatures_do_not_depend_on_folders(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    names = "|".join(re.escape(path.name) for path in folder.iterdir())
    for command, (options, *_) in CASES.items():
        line = f"{command} {options}"
        moved = re.sub(rf"(?<= )({names})(?= |$)", rf"{tmp_path}/copy/\1", line)
        monkeypatch.chdir(folder)
        here, _ = run(line, capsys)
        monkeypatch.chdir(tmp_path)
        assert run(moved, capsys)[0] == here
