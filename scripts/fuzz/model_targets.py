"""Fuzz targets of the commands that read models or data of fairseq-preprocess."""

from __future__ import annotations

from importlib.util import find_spec

from targets import JOINED, LABELED, TEXT, Target

READ = b"a b c\nd e\n\nf g a b\n"
WRITTEN = b"u v\nw x y\n\nz\n"
LIST = (
    b"0 ||| u v ||| l2r= -0.5 ||| -0.5 ||| from= l2r\n"
    b"0 ||| w ||| l2r= -1.5 ||| -1.5 ||| from= l2r\n"
    b"1 ||| x y z ||| l2r= -0.1 ||| -0.1 ||| from= l2r\n"
)
DATA = "--data-dir {models}/data"
ALONE = "--device cpu --jobs 1"
BINARIZED = {
    f"folder/{name}": f"data/{name}"
    for name in (
        *("dict.src.txt", "dict.trg.txt"),
        *(
            f"{split}.src-trg.{side}.{kind}"
            for split in ("train", "test")
            for side in ("src", "trg")
            for kind in ("bin", "idx")
        ),
    )
}
TEXTS = {
    f"folder/{name}": f"texts/{name}"
    for name in (
        *("views.json", "pieces.model"),
        *(
            f"{view}/{name}"
            for view in ("label", "words", "pieces")
            for name in ("dict.txt", "valid.bin", "valid.idx")
        ),
    )
}
LEARNED = ("filter.json", "phsic-words.npz", "counts.source", "counts.target")
BERT = ("config.json", "tokenizer.json", "tokenizer_config.json", "vocab.txt")
WORD_VECTORS = {
    "src.vec": b"3 2\na 0.1 1\nb 0.2 1\nc 1 0\n",
    "src.vec.counts": b"a 3\nb 2\nc 1\n",
    "trg.vec": b"3 2\nu 0.1 1\nv 0.2 1\nw 1 0\n",
    "trg.vec.counts": b"u 3\nv 2\nw 1\n",
}
MODEL_TARGETS = {
    "back-translate": Target(
        f"back-translate {{text}} --model {{models}}/t.pt {DATA} {ALONE} --beam 2 --max-len-b 9 "
        "-o {out}",
        {"text": READ},
        ("--beam", "--lenpen", "--nbest", "--max-source-tokens", "--max-tokens"),
        ("--sampling", "--noisy-beam-beta=6", "--source-output={out}2"),
    ),
    "back-translate.parts": Target(
        f"back-translate {{text}} --model {{models}}/t.pt {DATA} {ALONE} --max-len-b 9 -o {{out}}/",
        {"text": READ},
        ("--part-size",),
        ("--shard=1/2", "--shard=3/2", "--source-output={out}2/"),
    ),
    "back-translate.model": Target(
        f"back-translate {{text}} --model {{one.pt}} {DATA} {ALONE} --max-len-b 9 -o {{out}}",
        {"text": READ, "one.pt": "t.pt"},
    ),
    "rerank.features.translation": Target(
        f"rerank features {{list}} --translation {{models}}/t.pt --source {{text}} {DATA} {ALONE} "
        "-o {out}",
        {"list": LIST, "text": READ},
        ("--lenpen", "--max-tokens"),
        ("--right-to-left", "--name=x"),
    ),
    "rerank.features.language_model": Target(
        f"rerank features {{list}} --language-model {{models}}/lm.pt {DATA} {ALONE} "
        "--unigrams {counts} -o {out}",
        {"list": LIST, "counts": b"u 3\nv 2\nw 1\n"},
    ),
    "rerank.features.masked_model": Target(
        f"rerank features {{list}} --masked-model {{models}}/masked.pt {DATA} {ALONE} -o {{out}}",
        {"list": LIST},
    ),
    "learned-filter.fit": Target(
        f"learned-filter fit {{one}} {{two}} --clean {{three}} {{four}} --vectors {{src.vec}} "
        "{trg.vec} --translation {models}/t.pt "
        f"{DATA} {ALONE} -o {{out}}",
        {"one": READ, "two": WRITTEN, "three": READ * 9, "four": WRITTEN * 9, **WORD_VECTORS},
        ("--seed", "--max-tokens"),
    ),
    "analyze.length-bleu": Target(
        "analyze length-bleu {folder} -c m={models}/t.pt -c n={models}/t.pt --subset test --beam 1 "
        "--subwords none --device cpu -o {out}",
        BINARIZED,
        ("--length-bounds", "--max-tokens"),
    ),
    "analyze.token-wins": Target(
        "analyze token-wins {folder} -c m={models}/t.pt -c n={models}/t.pt --subset test "
        "--device cpu -o {out}",
        BINARIZED,
        ("--rank-bounds", "--position-bounds"),
    ),
    "analyze.swapped-bleu": Target(
        "analyze swapped-bleu {folder} -c m={models}/t.pt --subset test --separator a --beam 1 "
        "--subwords none --device cpu -o {out}",
        BINARIZED,
        ("--lines", "--seed"),
    ),
    "position-data.binarized": Target(
        "position-data interpolate {folder} {out} --sentences 2",
        BINARIZED,
        ("--sentences",),
    ),
    "position-data.swapped": Target(
        "position-data swapped {folder} {out}",
        {"folder/train.en": JOINED, "folder/train.de": JOINED},
    ),
    "position-data.extrapolate": Target(
        "position-data extrapolate {folder} {out}", BINARIZED, ("--limit",)
    ),
    "export.ctranslate2": Target(
        f"export {{one.pt}} --to ctranslate2 {DATA} -o {{out}}", {"one.pt": "t.pt"}
    ),
    "edits.tune": Target(
        "edits tune {one} {two} --model {models}/tagger.pt --data-dir {models}/data --iterations 1 "
        "--device cpu",
        {"one": READ, "two": b"a b b\nd e\na\nf g a b\n"},
        ("--iterations", "--batch-size"),
        ("--metric=accuracy",),
    ),
    "correct": Target(
        f"correct {{text}} --model {{models}}/tagger.pt {DATA} {ALONE} --tokenizer none -o {{out}}",
        {"text": READ},
        ("--iterations", "--batch-size"),
        ("--json", "--diff", "--tokenizer=moses"),
    ),
    "correct.spelling": Target(
        f"correct {{text}} --model {{models}}/tagger.pt {DATA} {ALONE} --tokenizer none "
        "--spelling {counts} -o {out}",
        {"text": READ, "counts": b"a 20\nb 9\n<s> a 12\na b 2\n"},
        ("--keep-bias", "--min-confidence", "--batch-size"),
        ("--weights=1", "--weights=1,1"),
    ),
    "edits.prepare": Target(
        "edits prepare {one} {two} --valid {one} {two} --jobs 1 -o {out}",
        {"one": READ, "two": b"a b b\nd e\na\nf g a b\n"},
        ("--size", "--max-ngram"),
        ("--groups=none", "--groups=verb,x", "--transforms=none", "-s=x", "-t=../y"),
    ),
    "correct.model": Target(
        f"correct {{text}} --model {{one.pt}} {DATA} {ALONE} --tokenizer none -o {{out}}",
        {"text": READ, "one.pt": "tagger.pt"},
    ),
    "learned-filter.apply": Target(
        f"learned-filter apply {{models}}/learned {{one}} {{two}} --keep 50 {ALONE} -o {{out}} "
        "{out}2",
        {"one": READ, "two": WRITTEN},
        ("--keep",),
    ),
    "learned-filter.apply.folder": Target(
        f"learned-filter apply {{folder}} {{one}} {{two}} --keep 50 {ALONE} -o {{out}} {{out}}2",
        {
            "one": READ,
            "two": WRITTEN,
            **{f"folder/{name}": f"learned/{name}" for name in LEARNED},
        },
    ),
    "classify.prepare.bert": Target(
        "classify prepare {one} --valid-size 0.2 --subword-vocab-size 60 "
        "--tokenizer bert:{folder} -o {out}",
        {"one": LABELED, **{f"folder/{name}": f"bert/{name}" for name in BERT}},
    ),
    "analyze.shift-similarity": Target(
        "analyze shift-similarity {folder} -c m={models}/shape.pt --subset test --device cpu "
        "-o {out}",
        BINARIZED,
        ("--offsets", "--max-tokens"),
    ),
    "rerank.vectors": Target(
        "rerank vectors {text} --dimensions 2 --buckets 9 --epochs 1 --min-count 1 -o {out}.vec",
        {"text": TEXT},
        ("--dimensions", "--epochs", "--min-count"),
        ("--tokenize=13a", "--tokenize=x"),
    ),
    "classify.predict": Target(
        "classify predict {text} --model {models}/classifier.pt --data-dir {models}/texts "
        "--device cpu -o {out}",
        {"text": LABELED},
        ("--batch-size", "--windows"),
    ),
    "classify.predict.model": Target(
        "classify predict {text} --model {one.pt} --data-dir {models}/texts --device cpu -o {out}",
        {"text": LABELED, "one.pt": "classifier.pt"},
    ),
    "classify.predict.data": Target(
        "classify predict {text} --model {models}/classifier.pt --data-dir {folder} --device cpu "
        "-o {out}",
        {"text": LABELED, **TEXTS},
    ),
    "classify.label": Target(
        f"classify label --model {{models}}/classifier.pt --data-dir {{folder}} --split valid "
        f"{ALONE} -o {{out}}",
        TEXTS,
        ("--batch-size", "--part-size"),
        ("--shard=1/2", "--shard=3/2"),
    ),
}
if find_spec("onnxruntime") is not None:
    MODEL_TARGETS["correct.onnx"] = Target(
        f"correct {{text}} --model {{folder}} {ALONE} --tokenizer none -o {{out}}",
        {
            "text": READ,
            **{
                f"folder/{name}": f"onnx/{name}"
                for name in ("config.json", "dict.txt", "edits.txt", "model.onnx")
            },
        },
    )
