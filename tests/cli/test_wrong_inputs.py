"""A wrong input ends in one error that names it. No file is written, changed or deleted.

Commands that need a model of their own are tested in their own files.
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.cli.rewriting import refused

GOLD = """\
S the cat sit .
A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0
A 2 3|||R:VERB:TENSE|||sat|||REQUIRED|||-NONE-|||1

S a dog dog sat .
A 1 2|||U:NOUN||||||REQUIRED|||-NONE-|||0

S a mat .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""
TEXT = "the cat sits on mat .\nA dog  sat\n.\n"
LABELED = "".join(f"{'good' if n % 2 else 'bad'}\tfilm number {n} is fine\n" for n in range(40))
FILES: dict[str, str | bytes] = {
    "text": TEXT,
    "other": TEXT.replace("cat", "bat").replace("dog", "very long dog"),
    "short": "a\n",
    "empty": "",
    "blank": "\n \n\n",
    "latin": b"good\nb\xe4d\n\n",
    "cut.gz": gzip.compress(TEXT.encode() * 999)[:-20],
    "levels": "A\n\nB\n",
    "gold.m2": GOLD,
    "bad.m2": GOLD.replace("A 1 2", "A 1 22"),
    "overlap.m2": GOLD.replace("TENSE|||sat|||REQUIRED|||-NONE-|||1", "X|||sat|||R|||-NONE-|||0"),
    "other.m2": GOLD.replace("dog dog", "dog cat"),
    "short.m2": GOLD.partition("S a mat")[0],
    "bars": TEXT.replace("A dog", "A ||| dog"),
    "gap.gen": "H-0\t-1\ta\nH-2\t-1\tb\n",
    "cut.gen": "H-0\t-1\ta\nH-1\t-0.2",
    "digits.gen": f"H-0\t-1\ta\nH-{'1' * 5000}\t-1\tb",
    "dict.txt": "the 3\ncat 2\n",
    "list": "0 ||| a ||| s= 1 t= 2\n0 ||| b ||| t= 2\n1 ||| a ||| s= 1 t= 2\n",
    "gap.list": "0 ||| a ||| s= 1\n2 ||| a ||| s= 1\n",
    "nan.list": "0 ||| a ||| s= nan\n",
    "v.vec": "2 1\nthe 1\ncat 2\n",
    "odd.vec": b"1 1\nthe \xff\n",
    "bad.yaml": "a: b: c",
    "edits": "fairseq-ssl edit dictionary, form 1\nlongest 1\ngram the 2\ntransform CASE_lower\n",
    "labeled": LABELED,
    "valid": "good\tA Fine, film\nbad\tnumber\n",
    "fair": "fair\ta film\n",
    "extra": "new\nA Fine film!\n",
    "bpe.model": "",
    "run/thesis.tex": "years of work\n",
    "pair/train.en": "a\n",
    "pair/train.de": "A\n",
}
SHORT = {
    "COPY": "--copy-unknown --source-dict dict.txt --target-dict dict.txt -o out --source",
    "FIT": "learned-filter fit labeled labeled --jobs 1 --clean labeled labeled",
    "VECTORS": "--vectors v.vec v.vec",
    "OUT": "-o out --jobs 1",
    "PREPARE": "classify prepare labeled -o out --subword-vocab-size 60",
}
"""Words of commands by their abbreviation."""
CASES = """
2 | text is an input             | tokenize text --moses en -o text
2 | out.tmp would be overwritten | tokenize out.tmp --moses en -o out
2 | out.json would be            | tokenize out.json --moses en -o out
2 | is '.'. Pass the name        | tokenize text --moses en -o .
1 | missing                      | tokenize missing --moses en -o out
1 | latin:2                      | tokenize latin --moses en -o out
1 | H-1                          | postprocess gap.gen --fairseq-lines H -o out
1 | H-0                          | postprocess text --fairseq-lines H -o out
1 | cut.gen:2                    | postprocess cut.gen --fairseq-lines H -o out
1 | digits.gen:2                 | postprocess digits.gen --fairseq-lines H -o out
1 | latin:2                      | postprocess latin --subwords sentencepiece -o out
2 | No step                      | postprocess text --subwords none
1 | short                        | postprocess text COPY short
1 | short                        | postprocess short COPY text
1 | text:1                       | postprocess text COPY text --source-dict text
2 | </s>                         | tag </s> text
1 | text:1                       | tag <BT> --dictionary text
1 | text:1                       | tag <BT> --dictionary dict.txt text
2 | text is an input             | tag <BT> text -o text
1 | short                        | tokenize short --train-truecase out
1 | text:1                       | tokenize other --truecase text -o out
2 | text is an input             | tokenize text --train-truecase text
2 | pipe is a device or a pipe   | tokenize text --truecase pipe --jobs 2
2 | --output                     | tokenize text --train-truecase out -o out
2 | --normalize                  | tokenize text --truecase dict.txt --normalize
2 | --moses                      | tokenize text
1 | empty                        | spelling count empty -o out
2 | text exists                  | spelling count text -o text
2 | different files              | spelling count text -o text --force
1 | text:1                       | spelling correct text --counts text
2 | text is an input             | spelling correct text --counts dict.txt -o text
1 | nothing                      | subwords encode nothing text
2 | bpe.model is an input        | subwords encode bpe text -o bpe.model
2 | bpe.model is an input        | subwords dictionary bpe -o bpe.model
1 | latin:2                      | subwords train text latin --size 30 -o out
1 | latin:2                      | subwords train text latin --size 30 -o out --kind subword-nmt
2 | <unk>                        | subwords train text --size 30 -o out --tags <unk>
1 | text                         | confusion-sets text --min-count 99 -o out
2 | text is an input             | confusion-sets text -o text
2 | 'kepp'                       | noise text --method direct:kepp=1
2 | different files              | noise text --method characters -o text --jobs 1
2 | out.tmp would be overwritten | noise out.tmp --method characters OUT
2 | pipe is a device or a pipe   | noise text --method direct --counts pipe OUT
2 | pipe                         | noise pipe --method direct --jobs 1
2 | run is a folder              | noise text --method characters -o run --force --jobs 1
1 | missing                      | noise missing --method characters OUT
1 | empty                        | noise empty --method characters OUT
1 | blank                        | noise blank --method negatives OUT
1 | cut.gz                       | noise cut.gz --method characters OUT
1 | text                         | noise text --method direct --counts text OUT
2 | 'cleen'                      | filter text --filter cleen OUT
2 | different files              | filter text other --filter clean -o text out --jobs 1
2 | different files              | filter text other --filter clean -o out ./out --jobs 1
2 | stdout                       | filter text other --filter clean -o out - --jobs 1
2 | OUT/                         | filter text --filter duplicates --memory 9 OUT
1 | bad.yaml:1                   | filter text --config bad.yaml OUT
1 | missing                      | filter text missing --filter encoding -o out out2 --jobs 1
1 | empty                        | filter empty --filter clean OUT
1 | short                        | filter text short --filter encoding -o out out2 --jobs 1
1 | latin:2                      | filter latin --filter clean OUT
1 | cut.gz                       | filter cut.gz --filter encoding OUT
2 | --vectors                    | FIT -o out
2 | v.vec exists                 | FIT VECTORS -o v.vec
2 | would replace the input      | FIT VECTORS -o v.vec --force
1 | missing                      | FIT --vectors v.vec missing -o out
1 | short                        | FIT VECTORS --clean short short -o out
2 | different files              | learned-filter apply run text other --keep 5 -o out out
1 | run                          | learned-filter apply run text other --keep 5 -o out out2
2 | text is an input             | edits dictionary text other -o text --jobs 1
2 | edits is an input            | edits label text other -o edits --dictionary edits --jobs 1
2 | other is an input            | edits dictionary text other -o out --label-dict other --jobs 1
2 | out                          | edits dictionary text other -o out --label-dict out --jobs 1
1 | short                        | edits dictionary text short OUT
1 | text                         | edits dictionary text text OUT
1 | latin:2                      | edits dictionary text latin OUT
1 | latin                        | edits dictionary text other -o out --transforms latin --jobs 1
1 | gold.m2 is an M2 file        | edits label gold.m2 text --dictionary edits OUT
1 | text                         | edits label text other -o out --dictionary text --jobs 1
1 | gold.m2 is an M2 file        | edits tune text gold.m2 --model text
2 | other is not a checkpoint    | edits tune text other --model a.pt other
1 | short                        | edits vote text short -o out
2 | other is an input            | edits vote text other -o other
1 | short                        | edits prepare text other --valid text short OUT
2 | would replace the input      | edits prepare text other -o pair/.. --force --jobs 1
2 | different files              | learner-errors text other -o text
1 | text                         | learner-errors text text -o out
1 | blank                        | learner-errors blank blank -o out
1 | annotator 2                  | m2 to-text gold.m2 -o out --annotator 2
1 | text                         | m2 to-text text -o out
1 | text                         | m2 to-text text -o out --annotator all
1 | overlap.m2:1                 | m2 to-text overlap.m2 -o out
2 | pipe is a device or a pipe   | m2 to-text pipe -o out --annotator all
1 | text                         | m2 stats text
1 | bad.m2:6                     | m2 to-text bad.m2 -o out
1 | other.m2:5                   | m2 merge gold.m2 other.m2 -o out
1 | short.m2                     | m2 merge gold.m2 short.m2 -o out
1 | short.m2                     | m2 merge short.m2 gold.m2 -o out
1 | text:2                       | m2 from-text text bars --untyped -o out
1 | short                        | m2 from-text text short --untyped -o out
1 | short                        | score rouge text --reference short
1 | empty                        | score rouge empty --reference empty
1 | cut.gz cannot be read        | score rouge . --reference text
2 | '13b'                        | score bleu text --reference text --tokenize 13b
2 | --baseline a                 | score bleu a=text --reference text --baseline a
1 | short                        | score m2 short --gold gold.m2
1 | bad.m2:6                     | score m2 text --gold bad.m2
2 | text                         | score m2 text text --gold gold.m2
2 | --levels                     | score errant text --gold gold.m2 --by type --levels levels
1 | short                        | score errant overlap.m2 --gold gold.m2 --by level --levels short
1 | levels:2                     | score errant overlap.m2 --gold gold.m2 --by level --levels levels
1 | en_core_web_sm               | score errant text --gold gold.m2
1 | other.m2:1                   | score errant other.m2 --gold gold.m2
1 | empty                        | score errant gold.m2 --gold empty
2 | 'x'                          | rerank merge x=list x=list
2 | list is an input             | rerank merge list -o list
2 | stdin                        | rerank merge a=- b=-
1 | text                         | rerank merge text
1 | gap                          | rerank merge list gap.list -o out
1 | text                         | rerank apply list --weights text -o out
1 | gap.list                     | rerank apply gap.list --weight s=1 -o out
1 | list:2                       | rerank tune list --reference valid --features s
1 | short                        | rerank tune list --reference short --features t
1 | nan.list:1                   | rerank tune nan.list --reference short
1 | short                        | rerank post-ensemble text short --vectors v.vec -o out
1 | odd.vec:2                    | rerank post-ensemble text other --vectors odd.vec -o out
2 | stdin                        | rerank vectors - -o v.vec
1 | missing                      | PREPARE --valid missing
1 | 'fair'                       | PREPARE --valid fair
1 | valid contains labeled texts | PREPARE --valid valid --unlabeled valid
1 | valid contains labeled texts | PREPARE --valid valid --extra-unlabeled valid
1 | extra:2                      | PREPARE --valid valid --extra-unlabeled extra
2 | pipe                         | PREPARE --valid valid --extra-unlabeled pipe
1 | --train-lines                | PREPARE --train-lines 41
1 | --subword-vocab-size         | PREPARE --subword-vocab-size 20000 --valid-size 0.2
2 | would replace the input      | classify prepare labeled --valid-size 0.2 -o pair/.. --force
2 | would replace the input      | position-data vanilla pair pair
2 | would replace the input      | position-data vanilla pair pair/.. --force
2 | run exists                   | position-data vanilla pair run
2 | not created by fairseq-ssl position-data | position-data vanilla pair run --force
2 | fr                           | position-data vanilla pair out -s en -t fr
1 | missing                      | position-data vanilla missing out
1 | run                          | position-data vanilla run out
2 | --limit                      | position-data interpolate pair out --limit 3
2 | interpolate and swapped only | position-data vanilla pair out --separator x
2 | is a folder                  | average RUN -o out
2 | --last                       | average RUN RUN --last 2 -o out
1 | 99                           | average RUN --last 99 -o out
1 | missing                      | average missing -o out
1 | missing                      | analyze token-wins missing -c a=LAST -c b=text -o out
1 | missing                      | analyze length-bleu DATA -c a=missing -c b=LAST -o out
1 | dev                          | analyze length-bleu DATA --subset dev -c a=LAST -c b=LAST -o out
1 | <sep>                        | analyze swapped-bleu DATA --subwords none -c a=LAST -o out
"""
"""Exit code, culprit and command."""


@pytest.mark.parametrize("case", CASES.strip().splitlines())
def test_a_wrong_input_is_named(
    case: str,
    request: pytest.FixtureRequest,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in FILES.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_bytes(content.encode() if isinstance(content, str) else content)
    os.mkfifo("pipe")
    code, culprit, command = (part.strip() for part in case.split(" | ", 2))
    words = [word for name in command.split() for word in SHORT.get(name, name).split()]
    if "LAST" in command or "RUN" in command:
        run = request.getfixturevalue("trained")
        data = request.getfixturevalue("toy_data")
        places = {"LAST": f"{run}/checkpoint_last.pt", "RUN": str(run), "DATA": str(data)}
        for name, path in places.items():
            words = [word.replace(name, path) for word in words]
    before = files(tmp_path)
    errors = refused(capsys, int(code), *words).splitlines()
    (error,) = (line for line in errors if ": error: " in line)
    assert culprit in error
    assert files(tmp_path) == before


def files(folder: Path) -> dict[Path, bytes]:
    """Return the paths in a folder, with the contents of files."""
    paths = sorted(folder.rglob("*"))
    return {path: path.read_bytes() if path.is_file() else b"" for path in paths}
