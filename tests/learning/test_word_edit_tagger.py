"""A tiny edit tagger on words learns verb forms and number as transforms, and keeps the case.

The encoder reads lowercase subwords. The edit dictionary has no q-grams.
"""

from __future__ import annotations

import json
import random
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from fairseq_ssl.edits.coverage import agreement
from tests.cli.conftest import ServerProcess
from tests.conftest import PACKAGE, Run
from tests.unit.metrics.small_pipeline import small_pipeline

VERBS = {
    "go": ("goes", "went", "going"),
    "see": ("sees", "saw", "seeing"),
    "buy": ("buys", "bought", "buying"),
    "stop": ("stops", "stopped", "stopping"),
    "write": ("writes", "wrote", "writing"),
    "teach": ("teaches", "taught", "teaching"),
    "carry": ("carries", "carried", "carrying"),
    "play": ("plays", "played", "playing"),
}
NOUNS = {"child": "children", "mouse": "mice", "knife": "knives", "city": "cities", "dog": "dogs"}
NAMES = ("Anna", "McDonald", "LaToya", "Bo", "DJ", "deVries")
TRAINING = (
    *("--task", "edit_labeling", "--edit-unit", "word", "--criterion", "edit_cross_entropy"),
    *("--arch", "edit_tagger", "--edit-unfactorized", "--encoder-layers", "2"),
    *("--encoder-embed-dim", "64", "--encoder-ffn-embed-dim", "128", "--dropout", "0"),
    *("--encoder-attention-heads", "4", "--max-source-positions", "64", "--edit-copy-weight", "1"),
    *("--optimizer", "adam", "--lr", "0.003", "--clip-norm", "1", "--max-tokens", "1000"),
    *("--lr-scheduler", "inverse_sqrt", "--warmup-updates", "50", "--attention-dropout", "0"),
    *("--max-update", "350", "--seed", "1", "--cpu", "--no-epoch-checkpoints"),
    *("--disable-validation", "--num-workers", "0"),
)


def pair(draw: random.Random) -> tuple[str, str]:
    """Return a sentence with errors in the verb and the noun, and the corrected sentence."""
    name, (verb, forms) = draw.choice(NAMES), draw.choice([*VERBS.items()])
    noun, plural = draw.choice([*NOUNS.items()])
    when, form = draw.choice([("Yesterday", forms[1]), ("Today", forms[0]), ("Now", forms[2])])
    number, correct_noun = draw.choice([("a", noun), ("two", plural)])
    be = ["is"] if when == "Now" else []
    sides = []
    for chosen, word in (
        (draw.choice([verb, *forms]), draw.choice([noun, plural])),
        (form, correct_noun),
    ):
        sides.append(" ".join([when, name, *be, chosen, "with", number, word, "."]))
    return sides[0], sides[1]


@pytest.fixture(scope="module")
def data(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Training and test sentences, and the folder of an uncased tokenizer."""
    folder = tmp_path_factory.mktemp("words")
    draw = random.Random(1)
    for split, size in (("train", 3000), ("test", 200)):
        pairs = [pair(draw) for _ in range(size)]
        for side, lines in zip(("src", "trg"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = [*VERBS, *NOUNS, "yesterday", "today", "now", "is", "with", "two", "."]
    words += [form for forms in VERBS.values() for form in forms] + [*NOUNS.values()]
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *letters, *(f"##{one}" for one in letters)]
    vocabulary = {name: number for number, name in enumerate(dict.fromkeys(names))}
    symbols = {"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}
    model: dict[str, Any] = {
        "type": "WordPiece",
        "unk_token": "[UNK]",
        "continuing_subword_prefix": "##",
    }
    model |= {"max_input_chars_per_word": 100, "vocab": vocabulary}
    content = {"version": "1.0", "model": model, "post_processor": symbols, "added_tokens": []}
    content |= {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "BertPreTokenizer"}}
    (folder / "tokenizer").mkdir()
    (folder / "tokenizer" / "tokenizer.json").write_text(json.dumps(content))
    kinds = ("--size", "0", "--groups", "all", "--transforms", "none", "--label-dict", "labels.txt")
    run(
        "fairseq-ssl",
        "edits",
        "dictionary",
        "train.src",
        "train.trg",
        "-o",
        "bin/edits.txt",
        *kinds,
        cwd=folder,
    )
    label = ("fairseq-ssl", "edits", "label", "train.src", "train.trg", "-o", "train.edits")
    run(*label, "--dictionary", "bin/edits.txt", cwd=folder)
    only = ("--trainpref", "train", "--destdir", "bin")
    run("fairseq-preprocess", "-s", "src", "-t", "trg", "--joined-dictionary", *only, cwd=folder)
    edits = ("-s", "edits", "--only-source", "--srcdict", "labels.txt")
    run("fairseq-preprocess", *edits, *only, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def model(run: Run, data: Path) -> Path:
    tokenizer = ("--edit-tokenizer", data / "tokenizer")
    words = ("--user-dir", PACKAGE, *TRAINING, *tokenizer, "--save-dir", data / "run")
    run("fairseq-train", data / "bin", *words)
    return data / "run" / "checkpoint_last.pt"


@pytest.mark.slow
def test_verbs_and_nouns_are_corrected_and_case_is_kept(run: Run, data: Path, model: Path) -> None:
    words = ("fairseq-ssl", "correct", data / "test.src", "--model", model, "--tokenizer", "none")
    corrected = run(*words, "--jobs", "1").stdout.splitlines()
    source, target = ((data / f"test.{side}").read_text().splitlines() for side in ("src", "trg"))
    scores = agreement(zip(source, corrected, target, strict=True)).scores
    assert scores["exact"] > 90
    assert scores["recall"] > 90
    for before, after in zip(source, corrected, strict=True):
        assert before.split()[:2] == after.split()[:2]


@pytest.mark.slow
def test_names_that_were_never_seen_are_kept(run: Run, model: Path) -> None:
    text = "Yesterday  OConnor go with two child.\nToday ZOË carry with a knives.\n"
    words = ("fairseq-ssl", "correct", "--model", model, "--jobs", "1")
    shown = run(*words, text=text).stdout
    assert shown == "Yesterday  OConnor went with two children.\nToday ZOË carries with a knife.\n"


@pytest.mark.slow
def test_lines_of_concurrent_requests_are_corrected_and_explained(
    data: Path, model: Path, tmp_path: Path
) -> None:
    source, target = (
        (data / f"test.{side}").read_text().splitlines()[:50] for side in ("src", "trg")
    )
    command = (sys.executable, "-m", "fairseq_ssl", "serve", "--model", str(model), "--port", "0")
    types = ("--explain", "--spacy-model", str(small_pipeline(tmp_path)))
    server = ServerProcess(tmp_path, *types, command=command)

    def served(line: str) -> dict[str, Any]:
        answer = httpx.post(f"{server.url}/correct", json={"lines": [line]}, timeout=60)
        (corrected,) = answer.json()["lines"]
        return dict(corrected)

    try:
        with ThreadPoolExecutor(50) as clients:
            lines = list(clients.map(served, source))
    finally:
        server.stop()
    assert [line["source"] for line in lines] == source
    correct = [line["text"] == one for line, one in zip(lines, target, strict=True)]
    assert sum(correct) > 45
    edits = [edit for line in lines for edit in line["edits"]]
    assert len(edits) > 50
    assert all(re.match("[MRU]:", edit["type"]) for edit in edits)
