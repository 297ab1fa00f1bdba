"""Attacks with each kind of untrusted file: none executes code, each ends with one line.

SECURITY.md lists these tests. A row has the description, the command that reads the file, the
files, the exit code and a part of the message. `{canary}` is a file that executed code would
create. Other tests with attacks:

- code in checkpoints: `tests/plugin/test_safe_loading.py`
- options copied by an export: `tests/unit/checkpoints/test_known_options.py`
- folders of transformers: `tests/unit/checkpoints/test_untrusted_folder.py`
- folders of CTranslate2: `tests/unit/checkpoints/test_ctranslate2_folder.py`
- content shown by `report`: `tests/unit/report/test_untrusted_content.py`
- a pickle in place of every file of every verb: `tests/cli/test_attacks_everywhere.py`
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from fairseq_ssl.cli.main import main
from tests.cli.attacks import (
    Content,
    as_array,
    as_checkpoint,
    as_pickle,
    bert_json,
    fasttext,
    filter_json,
    index,
    models,
    npz,
    npz_outside,
    npz_that_claims,
    with_option,
)

TEXT = b"a b c\nd e\nf g\n" * 3
OTHER = b"u v\nw x y\nz\n" * 3


@dataclass(frozen=True)
class Row:
    """An attack."""

    words: str
    files: Mapping[str, Content]
    code: int
    told: str


ALIASES = b"filters: [[&a0 [x,x,x,x,x,x,x,x,x,x],%s]]\n" % b",".join(
    b"&a%d [%s]" % (n, b",".join([b"*a%d" % (n - 1)] * 10)) for n in range(1, 12)
)
ANALYZED = "{models}/data -c m={a.pt} -c n={models}/t.pt --subset test --device cpu -o {out}"
ALONE = "--device cpu --jobs 1"
DECODE = f"back-translate {{text}} --data-dir {{models}}/data {ALONE} -o {{out}} --model"
FEATURES = f"rerank features {{list}} --data-dir {{models}}/data {ALONE} -o {{out}}"
LEARNED = (
    f"filter learned apply {{folder}} {{text}} {{other}} --keep 50 {ALONE} -o {{out}} {{out}}2"
)
WINS = (
    "token-wins {folder} -c m={models}/t.pt -c n={models}/t.pt --subset test --device cpu -o {out}"
)
FILTER = "filter {text} {other} --config {config.yaml} -o {out} {out}2 --jobs 1"
FIT = (
    f"filter learned fit {{text}} {{other}} --clean {{text}} {{other}} --vectors {{a.bin}} "
    f"{{a.bin}} {ALONE} -o {{out}}"
)
ESSAYS = "m2 from-json {a.json} --untyped -o {out}"
CODE = "__import__('os').system('touch {canary}')"
REFUSED = "nothing in it was run"

WITH_CHECKPOINT = {
    "average": "average {a.pt} -o {out}",
    "moving average": "average {a.pt} --ema -o {out}",
    "export": "export {a.pt} --to fairseq -o {out}",
    "export to CTranslate2": "export {a.pt} --to ctranslate2 --data-dir {models}/data -o {out}",
    "export of one direction": "export {a.pt} --to translation -s src -t trg -o {out}",
    "back-translate": f"{DECODE} {{a.pt}}",
    "back-translate by CTranslate2": f"{DECODE} {{a.pt}} --engine ctranslate2",
    "rerank, translation": f"{FEATURES} --translation {{a.pt}} --source {{text}}",
    "rerank, language model": f"{FEATURES} --language-model {{a.pt}}",
    "rerank, masked model": f"{FEATURES} --masked-model {{a.pt}}",
    "token-wins": f"token-wins {ANALYZED}",
    "length-bleu": f"length-bleu {ANALYZED} --subwords none",
    "swapped-bleu": "swapped-bleu {models}/data -c m={a.pt} --subset test --separator a --beam 1 "
    "--subwords none --device cpu -o {out}",
    "shift-similarity": "shift-similarity {models}/data -c m={a.pt} --subset test --device cpu "
    "-o {out}",
    "classify predict": "classify predict {text} --model {a.pt} --data-dir {models}/texts "
    "--device cpu",
    "classify label": "classify label --model {a.pt} --data-dir {models}/texts --split valid "
    "--device cpu -o {out}",
    "edits tune": "edits tune {text} {other} --model {a.pt} --data-dir {models}/data --device cpu",
}
WITH_BERT = {
    "classify prepare": "classify prepare {labeled} --valid-share 0.2 --subword-vocab-size 60 "
    "--tokenizer bert:{folder} -o {out}",
    "rerank, masked model": "rerank features {list} --masked-model {folder} " + ALONE + " -o {out}",
}

TABLE: dict[str, Row] = {
    **{
        f"pickle: {verb}": Row(words, {"a.pt": as_checkpoint}, 1, REFUSED)
        for verb, words in WITH_CHECKPOINT.items()
    },
    **{
        f"{setting}: {verb}": Row(
            words, {f"folder/{name}": bert_json(name, {setting: content})}, 1, setting
        )
        for verb, words in WITH_BERT.items()
        for name, setting, content in (
            ("config.json", "auto_map", {"AutoModel": "attack.Attack"}),
            ("tokenizer_config.json", "auto_map", {"AutoTokenizer": ["attack.Attack", None]}),
            ("config.json", "attn_implementation", "stranger/attention"),
            ("tokenizer_config.json", "vocab_file", "/etc/passwd"),
        )
    },
    "pickle: subword model": Row(
        "subwords encode {a.model} {text} -o {out}", {"a.model": as_pickle}, 1, "a.model"
    ),
    "code in an option: export": Row(
        "export {a.pt} --to fairseq -o {out}",
        {"a.pt": with_option("encoder_layers", CODE)},
        1,
        "encoder_layers",
    ),
    "code in an option: export to CTranslate2": Row(
        "export {a.pt} --to ctranslate2 --data-dir {models}/data -o {out}",
        {"a.pt": with_option("adaptive_softmax_cutoff", CODE)},
        1,
        "adaptive_softmax_cutoff",
    ),
    "code in an option: average": Row(
        "average {a.pt} -o {out}",
        {"a.pt": with_option("encoder_layers", CODE)},
        1,
        "encoder_layers",
    ),
    "the environment in an option: average": Row(
        "average {a.pt} -o {out}",
        {"a.pt": with_option("dropout", "${{oc.env:HOME}}")},
        1,
        "dropout",
    ),
    "the environment in an option: export": Row(
        "export {a.pt} --to fairseq -o {out}",
        {"a.pt": with_option("dropout", "${{oc.env:HOME}}")},
        1,
        "dropout",
    ),
    "pickle: learned filter": Row(LEARNED, {"folder/phsic-words.npz": as_pickle}, 1, "not an npz"),
    "objects: learned filter": Row(LEARNED, {"folder/phsic-words.npz": as_array}, 1, "not an npz"),
    "huge shape: learned filter": Row(
        LEARNED,
        {"folder/phsic-words.npz": npz_that_claims("(1000000000, 1000000000)")},
        1,
        "not an npz",
    ),
    "negative shape: learned filter": Row(
        LEARNED, {"folder/phsic-words.npz": npz_that_claims("(-1, 3)")}, 1, "not an npz"
    ),
    "member outside the archive: learned filter": Row(
        LEARNED, {"folder/phsic-words.npz": npz_outside}, 1, "not an npz"
    ),
    "other shapes: learned filter": Row(
        LEARNED, {"folder/phsic-words.npz": npz(covariance=np.ones((5, 5)))}, 1, "unexpected"
    ),
    "not numbers: learned filter": Row(
        LEARNED, {"folder/phsic-words.npz": npz(covariance=np.full((3, 3), "x"))}, 1, "unexpected"
    ),
    "infinite numbers: learned filter": Row(
        LEARNED, {"folder/phsic-words.npz": npz(source_mean=np.full(3, np.nan))}, 1, "unexpected"
    ),
    "other file: learned filter": Row(
        LEARNED,
        {"folder/filter.json": filter_json(measures={"vectors": ["/etc/passwd"] * 2})},
        2,
        "/etc/passwd is not a vector file",
    ),
    "other settings: learned filter": Row(
        LEARNED,
        {"folder/filter.json": filter_json(measures={"tokenizers": [{}, 1]})},
        1,
        "tokenizers are not names",
    ),
    "tokenizer that downloads a model: learned filter": Row(
        LEARNED,
        {"folder/filter.json": filter_json(measures={"tokenizers": ["none", "flores200"]})},
        1,
        "Expected one of none, 13a",
    ),
    "other classifier: learned filter": Row(
        LEARNED,
        {"folder/filter.json": filter_json(classifier={"weights": [1, 2, 3]})},
        1,
        "expected 1 numbers",
    ),
    "huge claims: word vectors": Row(
        LEARNED,
        {
            "a.vec": b"999999999999 999999999999\na 1 2\n",
            "folder/filter.json": filter_json(measures={"vectors": ["{folder}/../a.vec"] * 2}),
        },
        1,
        "a.vec",
    ),
    "pickle: word vectors": Row(FIT, {"a.bin": as_pickle}, 1, "not a complete fastText model"),
    "ends within a word: word vectors": Row(
        FIT, {"a.bin": fasttext(94)}, 1, "not a complete fastText model"
    ),
    "ends within numbers: word vectors": Row(
        FIT, {"a.bin": fasttext(150)}, 1, "not a complete fastText model"
    ),
    "Python in YAML": Row(
        FILTER,
        {
            "config.yaml": lambda canary: (
                f"!!python/object/apply:os.system [touch {canary}]".encode()
            )
        },
        1,
        "is not valid YAML",
    ),
    "aliases that grow: YAML": Row(FILTER, {"config.yaml": ALIASES}, 1, "aliases"),
    "nested: YAML": Row(FILTER, {"config.yaml": b"filters: " + b"[" * 5000}, 1, "too deeply"),
    "packed twice: YAML": Row(
        FILTER, {"config.yaml": gzip.compress(bytes(10_000_000))}, 1, "is not valid YAML"
    ),
    "huge count: index": Row(
        WINS, {"folder/test.src-trg.src.idx": index(count=2**60)}, 1, "idx is"
    ),
    "huge sentence: index": Row(
        WINS, {"folder/test.src-trg.src.idx": index(size=2**31 - 1)}, 1, "idx is damaged"
    ),
    "negative sentence: index": Row(
        WINS, {"folder/test.src-trg.src.idx": index(size=-1)}, 1, "idx is damaged"
    ),
    "outside the file: index": Row(
        WINS, {"folder/test.src-trg.src.idx": index(start=2**60)}, 1, "idx is damaged"
    ),
    "unknown type: index": Row(
        WINS, {"folder/test.src-trg.src.idx": index(kind=99)}, 1, "idx is damaged"
    ),
    "huge numbers: weights of n-best lists": Row(
        "rerank apply {list} --weights {w.json} -o {out}",
        {"w.json": b'{"weights": {"l2r": 1' + b"0" * 400 + b"}}"},
        1,
        "w.json",
    ),
    "nested: weights of n-best lists": Row(
        "rerank apply {list} --weights {w.json} -o {out}", {"w.json": b"[" * 99_999}, 1, "w.json"
    ),
    "nested: essays": Row(ESSAYS, {"a.json": b"[" * 99_999}, 1, "a.json:1 is not JSON"),
    "half of a surrogate pair: essays": Row(
        ESSAYS, {"a.json": b'{"text": "\\ud800", "edits": []}'}, 1, "a.json:1 is not JSON"
    ),
    "line end in a type: essays": Row(
        ESSAYS,
        {"a.json": b'{"text": "a", "edits": [[0, [[0, 1, "b", "R\\nS x"]]]]}'},
        1,
        "a.json:1 is not an essay",
    ),
    "span outside the text: essays": Row(
        ESSAYS,
        {"a.json": b'{"text": "a", "edits": [[0, [[0, 1' + b"0" * 99 + b', "b"]]]]}'},
        1,
        "a.json:1 is not an essay",
    ),
}


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    return tmp_path / "canary"


@pytest.fixture
def places(tmp_path: Path, canary: Path) -> Callable[[Mapping[str, Content]], dict[str, str]]:
    """Write the files of an attack, over a copy of a valid folder. Return all paths by name."""
    wholes = {
        "config.json": "bert",
        "tokenizer_config.json": "bert",
        "filter.json": "learned",
        "phsic-words.npz": "learned",
        "test.src-trg.src.idx": "data",
    }

    def write(files: Mapping[str, Content]) -> dict[str, str]:
        given: dict[str, Content] = {
            "text": TEXT,
            "other": OTHER,
            "labeled": b"".join(b"good\ta %d\nbad\tb %d\n" % (n, n) for n in range(20)),
            "list": b"0 ||| u v ||| l2r= -0.5 ||| -0.5\n1 ||| w ||| l2r= -0.1 ||| -0.1\n",
            **files,
        }
        names = {"models": str(models()), "out": str(tmp_path / "out")}
        names["folder"] = str(tmp_path / "folder")
        for name, content in given.items():
            path = tmp_path / name
            if path.name in wholes:
                path.parent.mkdir(exist_ok=True)
                for whole in (models() / wholes[path.name]).iterdir():
                    if not (path.parent / whole.name).exists():
                        (path.parent / whole.name).write_bytes(whole.read_bytes())
            data = content if isinstance(content, bytes) else content(canary)
            path.write_bytes(data.replace(b"{folder}", names["folder"].encode()))
            names[name] = str(path)
        return names

    return write


def ended(words: str, names: Mapping[str, str]) -> int:
    filled = []
    for word in words.split():
        for name, place in names.items():
            word = word.replace(f"{{{name}}}", place)
        filled.append(word)
    return main(filled)


@pytest.mark.parametrize("attack", TABLE)
def test_attack_ends_with_one_line(
    attack: str,
    places: Callable[[Mapping[str, Content]], dict[str, str]],
    canary: Path,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    row = TABLE[attack]
    names = places(row.files)
    capfd.readouterr()
    assert ended(row.words, names) == row.code
    said = capfd.readouterr().err
    errors = [line for line in said.splitlines() if ": error: " in line]
    assert len(errors) == 1, said
    assert row.told in errors[0]
    assert "Traceback" not in said
    assert not canary.exists()
    assert not (tmp_path / "out").exists()
    assert not (tmp_path.parent / "outside").exists()


def test_output_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(TEXT)
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "out").symlink_to(tmp_path / "mine")
    assert (
        main(["tokenize", str(tmp_path / "text"), "--moses", "en", "-o", str(tmp_path / "out")])
        == 0
    )
    assert (tmp_path / "out").is_symlink()
    assert (tmp_path / "mine").read_bytes() == TEXT


def test_a_folder_that_is_a_link_is_not_emptied(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("ctranslate2")
    checkpoint, data = models() / "t.pt", models() / "data"
    words = [
        "export",
        checkpoint,
        "--to",
        "ctranslate2",
        "--data-dir",
        data,
        "-o",
        tmp_path / "real",
    ]
    assert main(list(map(str, words))) == 0
    (tmp_path / "out").symlink_to(tmp_path / "real")
    capsys.readouterr()
    assert main([*map(str, words[:-1]), str(tmp_path / "out"), "--force"]) == 2
    assert "is a link" in capsys.readouterr().err
    assert (tmp_path / "real/model.bin").is_file()


@pytest.mark.parametrize(
    "name", ["a\nb", "a\x1b[31mb", "a\u2028b", "-o", "--force", "$(touch canary)", "a;b|c", "%s{}"]
)
def test_file_names_are_not_interpreted(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(TEXT)
    assert main(["tokenize", f"./{name}", "--moses", "en", "-o", "out"]) == 0
    assert Path("out").read_bytes() == TEXT
    Path(name).write_bytes(b"\xef\xbb\xbf" + TEXT)
    capsys.readouterr()
    assert main(["tokenize", f"./{name}", "--moses", "en", "-o", f"./{name}.out"]) == 0
    assert Path(f"./{name}.out").read_bytes() == TEXT
    notices = capsys.readouterr().err.splitlines()
    assert len(notices) == 3
    assert all(map(str.isprintable, notices))
    Path(name).write_bytes(b"\xff\n")
    assert main(["tokenize", f"./{name}", "--moses", "en", "-o", "out"]) == 1
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("fairseq-ssl tokenize: error: ")
    assert said.isprintable()
    assert not Path("canary").exists()
