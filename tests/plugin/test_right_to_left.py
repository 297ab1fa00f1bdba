"""Right-to-left models, compared with models trained on reversed text."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fairseq_ssl.errors import FairseqSslError
from tests.conftest import PACKAGE, TINY, Run
from tests.plugin.runs import equal, task_of

SHORT = ("--arch", "transformer_tiny", *TINY, "--max-update", "40", "--no-epoch-checkpoints")
TASK = ("--user-dir", PACKAGE, "--task", "tagged_translation")


def backwards(line: str) -> str:
    return " ".join(reversed(line.split()))


@pytest.fixture(scope="module")
def reversed_data(
    run: Run, toy_text: Path, toy_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The toy corpus, binarized from reversed targets."""
    folder = tmp_path_factory.mktemp("reversed")
    for split in ("train", "valid"):
        words, digits = ((toy_text / f"{split}.{side}").read_text() for side in ("words", "digits"))
        (folder / f"{split}.words").write_text(words)
        turned = "".join(f"{backwards(line)}\n" for line in digits.splitlines())
        (folder / f"{split}.digits").write_text(turned)
    run(
        *("fairseq-preprocess", "-s", "words", "-t", "digits", "--joined-dictionary"),
        *("--srcdict", toy_data / "dict.words.txt", "--destdir", folder / "bin"),
        *("--trainpref", folder / "train", "--validpref", folder / "valid"),
    )
    return folder / "bin"


@pytest.fixture(scope="module")
def model(run: Run, toy_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("right_to_left")
    run("fairseq-train", toy_data, *TASK, *SHORT, "--right-to-left", "--save-dir", folder)
    return folder / "checkpoint_last.pt"


def printed(run: Run, *words: str | Path) -> list[str]:
    shown = run("fairseq-generate", *words, "--cpu", "--gen-subset", "valid").stdout
    return re.findall(r"^[HTP]-.*$", shown, re.M)


@pytest.mark.slow
def test_training_equals_training_on_reversed_text(
    run: Run, model: Path, toy_data: Path, reversed_data: Path, tmp_path: Path
) -> None:
    run("fairseq-train", reversed_data, *SHORT, "--save-dir", tmp_path)
    plain = tmp_path / "checkpoint_last.pt"
    assert equal(model, plain)
    search = ("--beam", "3", "--max-len-b", "10")
    for flags in ((*search, "--prefix-size", "1"), ("--score-reference",)):
        # the checkpoint stores the direction of its targets
        ours = printed(run, toy_data, *TASK, "--path", model, *flags)
        theirs = printed(run, reversed_data, "--user-dir", PACKAGE, "--path", plain, *flags)
        assert ours == theirs, flags


def test_back_translate_writes_reading_order(
    run: Run, model: Path, toy_text: Path, toy_data: Path, tmp_path: Path
) -> None:
    search = ("--beam", "3", "--lenpen", "1", "--max-len-b", "10")
    written = printed(run, toy_data, *TASK, "--path", model, *search)
    found = dict(re.findall(r"^H-(\d+)\t\S+\t(.*)$", "\n".join(written), re.M))
    given, made = toy_text / "valid.words", tmp_path / "made"
    words = ("fairseq-ssl", "back-translate", given, "--model", model, "--data-dir", toy_data)
    one = ("--jobs", "1")
    run(*words, *search, *one, "--engine", "fairseq", "-o", made)
    lines = made.read_text().splitlines()
    assert lines == [backwards(found[str(number)]) for number in range(len(lines))]
    failed = run(*words, *search, *one, "--engine", "ctranslate2", "-o", tmp_path / "other", code=2)
    assert "decodes from right to left" in failed.stderr


def loaded(data: Path, *flags: str) -> Any:
    task = task_of(data, "--user-dir", PACKAGE, *SHORT, *flags)
    task.load_dataset("valid")
    return task


def test_every_translation_task_supports_right_to_left(toy_data: Path) -> None:
    plain = loaded(toy_data).datasets["valid"]
    for name, flags in {
        "tagged_translation": (),
        "local_transduction": (),
        "copying_translation": ("--truncate-target-words", "3"),
    }.items():
        turned = loaded(toy_data, "--task", name, "--right-to-left", *flags).datasets["valid"]
        for number in range(5):
            *words, end = plain[number]["target"].tolist()
            assert turned[number]["target"].tolist() == [*words[::-1], end], name
            assert turned[number]["source"].equal(plain[number]["source"]), name


def test_targets_are_truncated_before_they_are_reversed(toy_data: Path) -> None:
    flags = ("--task", "copying_translation", "--truncate-target-words", "2")
    task, plain = loaded(toy_data, *flags, "--right-to-left"), loaded(toy_data)
    for each in (task, plain):
        each.load_dataset("train")
    for number in range(5):
        *words, end = plain.datasets["train"][number]["target"].tolist()
        assert task.datasets["train"][number]["target"].tolist() == [*words[:2][::-1], end]


def test_eval_bleu_uses_reading_order(toy_data: Path) -> None:
    task = loaded(toy_data, "--task", "tagged_translation", "--right-to-left")
    words = task.target_dictionary
    one, two, three = (words.index(word) for word in words.symbols[5:8])
    joined = words.add_symbol("12@@")
    task.cfg.eval_bleu_remove_bpe, task.cfg.eval_tokenized_bleu = "@@ ", True
    task.cfg.eval_bleu_print_samples, task.tokenizer = False, None
    found = torch.tensor([three, two, joined, one, words.eos()])

    class Generator:
        def generate(self, models: Any, sample: Any, **options: Any) -> Any:
            return [[{"tokens": found}]]

    seen: list[str] = []
    plain = words.string

    def string(ids: Any, *rest: Any, **more: Any) -> str:
        seen.append(plain(ids, *rest, **more))
        return seen[-1]

    words.string = string
    sample = {"target": torch.cat([found, torch.tensor([words.pad()])]).unsqueeze(0)}
    task._inference_with_bleu(Generator(), sample, SimpleNamespace())
    a, b, c = words.symbols[5:8]
    assert seen == [f"{a} 12{b} {c}"] * 2


@pytest.mark.parametrize(
    ("flags", "options"),
    [
        ("--task tagged_translation --num-batch-buckets 2", {}),
        ("--task local_transduction --load-alignments", {}),
        ("--task tagged_translation", {"constraints": "ordered"}),
        ("--task local_transduction --aggressive", {}),
    ],
)
def test_options_that_depend_on_word_order_are_rejected(
    flags: str, options: dict[str, str], toy_data: Path
) -> None:
    culprit = "--constraints" if options else [word for word in flags.split() if "--" in word][-1]
    with pytest.raises(FairseqSslError, match=f"{culprit} cannot be used with --right-to-left"):
        loaded(toy_data, "--right-to-left", *flags.split()).build_generator(
            [], SimpleNamespace(**options)
        )
