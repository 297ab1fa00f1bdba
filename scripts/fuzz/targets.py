"""Fuzz targets: commands with their options and samples of their input files.

`model_targets` has the commands that read models.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from fairseq_ssl.filters import chain
from fairseq_ssl.noise.block_noise import NOISES

TEXT = b"one two three .\nThe cats sit on a mat , and sleep .\nthe cat\nA last line ;\n"
OTHER = b"eins zwei drei .\nDie Katzen sitzen .\ndie Katze\nEine letzte Zeile ;\n"
TWO_LINES = b"The cat sits .\nDogs bark .\n"
COUNTS = b"the 20\ncat 7\nsit 3\n<mask> 1\n"
M2 = (
    b"S The cat sit .\nA 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0\n"
    b"A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||1\n\nS Dogs bark .\n"
)
FOUND = (
    b"S-0\tthe cat\nT-0\tdie Katze\nH-0\t-0.5\tdie Katze\nD-0\t-0.5\tdie Katze\nP-0\t-1 -2\n"
    b"S-1\tyes\nH-1\t-0.5\tja\nP-1\t-1\n"
)
NBEST = (
    b"0 ||| die Katze ||| l2r= -0.5 lm= -1 ||| -1.5 ||| from= l2r\n"
    b"0 ||| der Hund ||| l2r= -0.7 lm= -2 ||| -2.7 ||| from= l2r\n"
    b"1 ||| ja ||| l2r= -0.1 lm= -1 ||| -1.1 ||| from= l2r\n"
)
LABELED = b"".join(b"pos\ta good film %d\nneg\ta bad film %d\n" % (n, n) for n in range(20))
CASE = b"the (5/7) The (2)\nCat (3/3)\n"
EDITS = (
    b"fairseq-ssl edit dictionary, form 1\nlongest 2\ngram the 5\ngram a_z 2\n"
    b"transform SUFFIX_+s a\ntransform CASE_lower\n"
)
FILTERS = b"filters:\n  - clean: {min: 1, max: 250, ratio: 3.0}\n  - duplicates\n"
JOINED = b"one two <sep> three\na <sep> b <sep> c\n"
LEVELS = b"A\nB\n"
LEARNED = json.dumps(
    {
        "errors": [5, 3, 1],
        "kinds": {"append": 1, "verb": 1, "replace": 1, "delete": 1},
        "deleted": {"the": 3},
        "missing": {"a": 1},
        "replaced": {"cat": {"cats": 2}},
    }
).encode()
SCORES = b"""{"systems": {"ours": {"chrF2": 50.5}}, "signature": "chrF2|lines:2|version:1"}"""
CODES = b"#version: 0.2\nt h\nth e</w>\nc at</w>\na t</w>\n"
WEIGHTS = json.dumps({"weights": {"l2r": 0.5, "lm": 0.1}}).encode()
VECTORS = b"3 2\none 0.1 0.2\ntwo 1 0\nthree 0 1\n"


@dataclass(frozen=True)
class Target:
    """A command with its input files and options."""

    words: str
    """Command line. {NAME} is a file of `files`, {out} an output, {models} an unchanged folder."""
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    """Sample content, or the name of a file in `small_models.folder()`, by file name."""
    numbers: tuple[str, ...] = ()
    """Options with a number, which are sometimes set to a hostile value."""
    extras: tuple[str, ...] = ()
    """Words that are sometimes appended to the command line."""
    program: str = ""
    """Script of a recipe, instead of `fairseq-ssl`."""


JOBS = "--jobs 1"
RULES = ",".join(name for name in chain.FILTERS if name != "langid")
"""All filters except `langid`, which drops the samples."""
TARGETS = {
    f"noise.{kind}": Target(
        f"noise {{text}} --method {kind} -o {{out}} {JOBS} {more}",
        {"text": TEXT, "counts": COUNTS, "sets": b"cat\tcar cut\nsit\tset\n"},
        ("--seed",),
    )
    for kind, more in {
        **dict.fromkeys(NOISES, "--counts {counts}"),
        "confusion": "--counts {counts} --confusion-sets {sets}",
        "shuffle": "",
        "learner": "",
        "characters": "",
        "characters:rate=0.3": "",
    }.items()
}
TARGETS |= {
    f"score.{name}": Target(f"score {words}", files, ("--resamples",), extras)
    for name, words, files, extras in (
        (
            "m2",
            "m2 {one} --gold {gold} " + JOBS,
            {"one": TWO_LINES, "gold": M2},
            ("--format=json",),
        ),
        (
            "errant",
            "errant {one} --gold {gold} --untyped",
            {"one": TWO_LINES, "gold": M2},
            ("--by=share",),
        ),
        (
            "gleu",
            "gleu {one} {two} --source {three} --reference {four}",
            {"one": TEXT, "two": OTHER, "three": TEXT, "four": OTHER},
            ("--baseline={two}",),
        ),
        ("bleu", "bleu {one} --reference {two}", {"one": TEXT, "two": TEXT}, ()),
        ("chrf", "chrf {one} --reference {two}", {"one": TEXT, "two": TEXT}, ("--word-order=2",)),
        ("accuracy", "accuracy {one} --reference {two}", {"one": TEXT, "two": TEXT}, ()),
        ("rouge", "rouge {one} --reference {two}", {"one": TEXT, "two": TEXT}, ("--stem",)),
    )
}
TARGETS["score.errant.levels"] = Target(
    "score errant {one} --gold {gold} --untyped --by level --levels {levels} --baseline {two} "
    "--resamples 9",
    {"one": TWO_LINES, "two": TWO_LINES, "gold": M2, "levels": LEVELS},
    ("--resamples",),
    ("--by=share", "--format=json"),
)
TARGETS |= {
    f"m2.{name}": Target(f"m2 {name} {words}", files, (), extras)
    for name, words, files, extras in (
        (
            "to-text",
            "{gold} -o {out}",
            {"gold": M2},
            ("--annotator=all", "--drop-overlaps", "--types=R*,M"),
        ),
        (
            "from-text",
            "{one} {two} --untyped -o {out}",
            {"one": TWO_LINES, "two": TWO_LINES.upper()},
            (),
        ),
        ("merge", "{gold} {more} -o {out}", {"gold": M2, "more": M2}, ()),
        ("stats", "{gold}", {"gold": M2}, ("--format=json",)),
    )
}
TARGETS |= {
    "tokenize": Target(
        "tokenize {text} --moses en -o {out}",
        {"text": TEXT},
        ("--jobs",),
        ("--normalize", "--no-escape", "--aggressive-dash-splits"),
    ),
    "postprocess.field": Target(
        "postprocess {text} --fairseq-lines H --subwords subword-nmt --moses de -o {out}",
        {"text": FOUND},
    ),
    "postprocess.subwords": Target(
        "postprocess {one} --subwords sentencepiece -o {out}",
        {"one": "\u2581The \u2581cat s \u2581sit .\n\u2581Dog s\n".encode()},
        (),
        ("--subwords=subword-nmt", "--subwords=none", "--drop=."),
    ),
    "postprocess": Target(
        "postprocess {text} --copy-unknown --source {source} --source-dict {one} "
        "--target-dict {two} -o {out}",
        {"text": b"the <unk> sits\n", "source": b"the cat sits\n", "one": COUNTS, "two": COUNTS},
        (),
        ("--japanese-punctuation", "--remove-brackets", "--detruecase"),
    ),
    "tag": Target("tag <BT> {text} -o {out}", {"text": TEXT}),
    "tag.dictionary": Target("tag <BT> --dictionary {one}", {"one": COUNTS}),
    "tokenize.train": Target(
        "tokenize {text} --train-truecase {out}", {"text": TEXT}, (), ("--moses=en",)
    ),
    "tokenize.truecase": Target(
        "tokenize {text} --truecase {case} -o {out}",
        {"text": TEXT, "case": CASE},
        (),
        ("--moses=en",),
    ),
    "confusion-sets": Target(
        "confusion-sets {text} -o {out} --jobs 1",
        {"text": TEXT},
        ("--min-count",),
    ),
    "spelling.count": Target("spelling count {text} -o {out}", {"text": TEXT}),
    "spelling.correct": Target(
        "spelling correct {text} --counts {one} -o {out}",
        {"text": TEXT, "one": b"the 20\ncat 9\n<s> the 12\nthe cat 2\n"},
    ),
    "learner-errors": Target(
        "learner-errors {one} {two} --min-count 1 -o {out}",
        {"one": b"the teh cat\nI has\n", "two": b"the cat\nI have\n"},
        ("--min-count",),
    ),
    "filter": Target(
        "filter {one} {two} --config {config} -o {out} {out}2 --jobs 1",
        {"one": TEXT, "two": OTHER, "config": FILTERS},
        (),
    ),
    "filter.gz": Target(
        f"filter {{one.gz}} {{two.gz}} --filter {RULES} -o {{out}}.gz {{out}}2.gz "
        "--jobs 1",
        {"one.gz": TEXT, "two.gz": OTHER},
    ),
    "edits.dictionary": Target(
        "edits dictionary {one} {two} -o {out} --jobs 1",
        {"one": TEXT, "two": OTHER},
        ("--size", "--max-ngram"),
    ),
    "edits.label": Target(
        "edits label {one} {two} --dictionary {edits} -o {out} --jobs 1",
        {"one": TEXT, "two": TEXT, "edits": EDITS},
    ),
    "edits.vote": Target(
        "edits vote {one} {two} {one} -o {out}", {"one": TEXT, "two": TEXT}, ("--min-votes",)
    ),
    "rerank.merge": Target(
        "rerank merge l2r={one} r2l={two} --subwords none -o {out}",
        {"one": FOUND, "two": NBEST.replace(b"l2r", b"r2l")},
        (),
        ("--right-to-left=r2l",),
    ),
    "rerank.tune": Target(
        "rerank tune {list} --reference {text} --jobs 1 --method grid --step 0.5 --folds 2 "
        "--report {out}2 -o {out}",
        {"list": NBEST, "text": TWO_LINES},
        ("--step", "--folds"),
        ("--method=mert", "--metric=chrf"),
    ),
    "rerank.apply": Target(
        "rerank apply {list} --weights {weights} -o {out}",
        {"list": NBEST, "weights": WEIGHTS},
        (),
        ("--nbest",),
    ),
    "rerank.post-ensemble": Target(
        "rerank post-ensemble {one} {two} {three} --vectors {vectors} -o {out}",
        {"one": TEXT, "two": TEXT, "three": OTHER, "vectors.vec": VECTORS},
    ),
    "classify.prepare": Target(
        "classify prepare {one} --unlabeled {two} --valid-size 0.2 --test-size 0.2 "
        "--subword-vocab-size 60 -o {out}",
        {"one": LABELED, "two": TEXT},
        ("--min-count", "--train-lines", "--valid-size"),
        ("--train-test-overlap=drop", "--lower"),
    ),
    "classify.score": Target(
        "classify score {one} {two}", {"one": LABELED, "two": LABELED}, ("--resamples",)
    ),
    "subwords.dictionary": Target(
        "subwords dictionary {model.model}", {"model.model": "pieces.model"}
    ),
    "subwords.encode": Target(
        "subwords encode {model.model} {text} -o {out}",
        {"model.model": "pieces.model", "text": TEXT},
        (),
        ("--tags=<BT>", "--tags= "),
    ),
    "subwords.encode.codes": Target(
        "subwords encode {it.codes} {text} -o {out}", {"it.codes": CODES, "text": TEXT}
    ),
    "subwords.train": Target(
        "subwords train {one} -o {out} --kind subword-nmt --size 8", {"one": TEXT}, ("--size",)
    ),
    "position-data": Target(
        "position-data interpolate {folder} {out} --sentences 2",
        {"folder/train.en": TEXT, "folder/train.de": OTHER, "folder/valid.en": TEXT,
         "folder/valid.de": OTHER},
        ("--sentences", "--limit"),
    ),
    "average": Target(
        "average {one.pt} {two.pt} -o {out}", {"one.pt": "t.pt", "two.pt": "t.pt"}, ("--last",)
    ),
    "export": Target("export {one.pt} --to fairseq -o {out}", {"one.pt": "t.pt"}),
    "edits.dictionary.transforms": Target(
        "edits dictionary {one} {two} --transforms {suffixes} --groups all --label-dict {out}2 "
        "-o {out} --jobs 1",
        {"one": TEXT, "two": TEXT.replace(b"s ", b" "), "suffixes": b"s - is\n- ed\n"},
    ),
    "spelling.correct.gz": Target(
        "spelling correct {text} --counts {one.gz} -o {out}",
        {"text": TEXT, "one.gz": b"the 20\ncat 9\n<s> the 12\nthe cat 2\n"},
    ),
    "noise.learner.errors": Target(
        "noise {text} --method learner --learner-errors {errors} -o {out} --jobs 1",
        {"text": TEXT, "errors": LEARNED},
        ("--seed",),
        ("--shard=1/2", "--shard=0/2"),
    ),
    "report.gold": Target(
        "report base={one} ours={two} --gold {gold} -o {out}.html",
        {"one": TWO_LINES, "two": b"The cat sit .\nDogs barked .\n", "gold": M2},
        (),
        ("--metric=m2", "--metric=gleu", "--baseline=ours", "--baseline=x"),
    ),
    "report.folder": Target(
        "report {folder} -o {out}.html",
        {"folder/x.1/test.txt": TEXT, "folder/scores.json": SCORES,
         "folder/figure.svg": b"<svg xmlns='http://www.w3.org/2000/svg'><text>x</text></svg>",
         "folder/other.json": b'{"rows": [[1, 2]], "names": {"a": null}}'},
    ),
    "report": Target(
        "report {folder} --metric bleu --reference {ref} --source {src} -o {out}.html",
        {"folder/test.txt": TEXT, "folder/x.json": b'{"metric": "bleu", "systems": []}',
         "ref": TEXT, "src": OTHER},
    ),
}  # fmt: skip
