"""Source tags, mixtures, noisy beam search and fluency boost in fairseq's commands."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import FairseqSslError
from tests.conftest import PACKAGE, TINY, Run
from tests.plugin.runs import equal, task_of

TASK = ("--user-dir", PACKAGE, "--task", "tagged_translation")


@pytest.fixture(scope="module")
def data(masked_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy corpus with the splits train1 and train2, and <BT> in the dictionary."""
    folder = tmp_path_factory.mktemp("tagged") / "bin"
    shutil.copytree(masked_data, folder)
    for number, part in ((1, "valid"), (2, "test")):
        for file in masked_data.glob(f"{part}.*"):
            shutil.copy(file, folder / file.name.replace(part, f"train{number}"))
    return folder


def loaded(data: Path, *flags: str) -> Any:
    """Return the task as fairseq-train sets it up."""
    return task_of(data, *TASK, "--arch", "transformer_tiny", *TINY, *flags)


@pytest.mark.parametrize("name", ["tagged", "copying", "reconstruction", "local"])
def test_every_translation_task_trains_on_all_training_splits(data: Path, name: str) -> None:
    task = loaded(
        data, "--task", "local_transduction" if name == "local" else f"{name}_translation"
    )
    sizes = []
    for split in ("train", "train1", "train2"):
        task.load_dataset(split)
        sizes.append(len(task.datasets[split]))
    task.load_dataset("train", combine=True)
    assert len(task.datasets["train"]) == sum(sizes)


@pytest.mark.parametrize("upsample", [1, 3])
def test_tags_are_prepended_to_the_sources_of_their_split_only(data: Path, upsample: int) -> None:
    flags = ("--upsample-primary", str(upsample))
    task = loaded(data, "--source-tags", "train1=<BT>", *flags)
    plain = loaded(data, *flags)
    for one in (task, plain):
        one.load_dataset("train", combine=True)
        one.load_dataset("valid")
    tagged, untagged = task.datasets["train"], plain.datasets["train"]
    tag = task.source_dictionary.index("<BT>")
    begin = len(tagged.src.datasets[0]) * upsample
    end = begin + len(tagged.src.datasets[1])
    assert len(tagged) == len(untagged) == end + len(tagged.src.datasets[2])
    for number in range(len(tagged)):
        before = [tag] if begin <= number < end else []
        source = untagged[number]["source"].tolist()
        assert tagged[number]["source"].tolist() == [*before, *source]
        assert tagged[number]["target"].equal(untagged[number]["target"])
        assert tagged.sizes[number].tolist() == [
            len(tagged[number][side]) for side in ("source", "target")
        ]
    # validation has no tags
    first = task.datasets["valid"][0]["source"]
    assert first.equal(plain.datasets["valid"][0]["source"])


def test_training_on_tagged_data_and_decoding_with_noise(
    run: Run, data: Path, tmp_path: Path
) -> None:
    short = ("--max-update", "3", "--no-epoch-checkpoints", "--save-dir", tmp_path)
    done = run(
        *("fairseq-train", data, *TASK, "--arch", "transformer_tiny", *TINY, *short),
        *("--source-tags", "train1=<BT>"),
    )
    assert re.search(r"Prepended <BT> to \d+ sources of train1", done.stdout + done.stderr)
    words = ("fairseq-generate", data, *TASK, "--cpu", "--path", tmp_path / "checkpoint_last.pt")
    search = ("--beam", "3", "--max-len-b", "10")
    texts = {}
    for name, flags in {
        "plain": (),
        "none": ("--noisy-beam-beta", "0"),
        "noisy": ("--noisy-beam-beta", "6"),
        "batches": ("--noisy-beam-beta", "6", "--batch-size", "3"),
    }.items():
        shown = run(*words, *search, *flags).stdout
        found = re.findall(r"^H-(\d+)\t\S+\t(.*)$", shown, re.M)
        texts[name] = dict(found)
    assert texts["plain"] == texts["none"]
    assert texts["noisy"] == texts["batches"]
    assert texts["noisy"] != texts["plain"]


def test_mixture_ratio(data: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "bt"
    shutil.copytree(data, elsewhere)
    names = "train=2", f"{elsewhere}/train2=1"
    task = loaded(
        data, "--mix-weights", ",".join(names), "--source-tags", f"{elsewhere}/train2=<BT>"
    )
    plain = loaded(data)
    task.load_dataset("train", combine=True)
    for split in ("train", "train2"):
        plain.load_dataset(split)
    mixed, first, second = task.datasets["train"], *map(plain.datasets.get, ("train", "train2"))
    assert len(mixed) == len(first) + len(first) // 2
    for number in range(len(first)):
        for side in ("source", "target"):
            assert mixed[number][side].equal(first[number][side])
    tag = task.source_dictionary.index("<BT>")
    for number in range(len(first), len(mixed)):
        expected = second[(number - len(first)) % len(second)]
        assert mixed[number]["source"].tolist() == [tag, *expected["source"].tolist()]
        assert mixed[number]["target"].equal(expected["target"])
    with pytest.raises(FairseqSslError, match="nothing of --mix-weights is missing"):
        loaded(data, "--mix-weights", "nothing=1").load_dataset("train")


def test_mixture_reads_all_pairs_of_each_data_folder(data: Path) -> None:
    task = loaded(data, "--mix-weights", "train=1")
    task.load_dataset("train")
    size = len(task.datasets["train"])
    half = str(size // 2)
    task = loaded(Path(f"{data}:{data}"), "--mix-weights", "train=1", "--mix-epoch-pairs", half)
    for first in (1, 2):
        read = set()
        for epoch in (first, first + 2):
            task.load_dataset("train", epoch)
            pairs = task.datasets["train"]
            pairs.set_epoch(epoch)
            read |= {pairs.src._index(0, position) for position in range(len(pairs))}
        assert len(read) == size // 2 * 2


def test_a_tagged_split_can_be_in_one_of_several_folders(data: Path, tmp_path: Path) -> None:
    """fairseq reads validation data from the first folder."""
    second = tmp_path / "second"
    shutil.copytree(data, second, ignore=shutil.ignore_patterns("valid.*"))
    task = loaded(Path(f"{data}:{second}"), "--source-tags", "train=<BT>,valid=<BT>")
    for epoch in (1, 2):
        task.load_dataset("train", epoch, combine=True)
    with pytest.raises(FairseqSslError, match=f"Expected a split in {data} or {second}"):
        loaded(Path(f"{data}:{second}"), "--source-tags", "none=<BT>").load_dataset("train", 2)


@pytest.mark.slow
def test_mixture_resumes_at_its_position(run: Run, data: Path, tmp_path: Path) -> None:
    mix = ("--mix-weights", "train=1,train1=2", "--mix-epoch-pairs", "60")
    words = ("fairseq-train", data, *TASK, "--arch", "transformer_tiny", *TINY, *mix)
    once, twice = tmp_path / "once", tmp_path / "twice"
    seen = run(*words, "--save-dir", once, "--max-epoch", "3").stdout
    assert re.search(r"train: 20 pairs per epoch, \d+ in total", seen)
    for epochs in ("1", "3"):
        run(*words, "--save-dir", twice, "--max-epoch", epochs)
    assert equal(once / "checkpoint_last.pt", twice / "checkpoint_last.pt")
    path = ("--path", once / "checkpoint_last.pt", "--max-tokens", "500", "--cpu", *TASK)
    for split in ("valid", "train"):
        run("fairseq-validate", data, *path, "--valid-subset", split)


@pytest.mark.parametrize(
    ("flags", "culprit"),
    [
        ("--source-tags train1", "train1"),
        ("--source-tags train1=<BTT>", "<BTT>"),
        ("--source-tags trian1=<BT>", "trian1"),
        ("--source-tags train1=<BT> --num-batch-buckets 2", "--num-batch-buckets"),
        ("--mix-weights train=much", "--mix-weights"),
        ("--mix-weights train=1,train=2", "twice"),
        ("--mix-weights train=1 --upsample-primary 2", "--upsample-primary"),
        ("--mix-weights train=1000,train1=1 --mix-epoch-pairs 40", "train1"),
        ("--mix-epoch-pairs 5", "--mix-epoch-pairs"),
        ("--noisy-beam-beta -1", "--noisy-beam-beta"),
    ],
)
def test_invalid_options_are_rejected(data: Path, flags: str, culprit: str) -> None:
    with pytest.raises(FairseqSslError, match=culprit):
        loaded(data, *flags.split()).load_dataset("train", combine=True)


def test_fluency_boost_keeps_less_fluent_hypotheses(
    run: Run, trained: Path, toy_text: Path, toy_data: Path, tmp_path: Path
) -> None:
    """This holds for fairseq-generate and for fairseq-ssl back-translate."""
    text, binary = tmp_path / "text", tmp_path / "bin"
    lines = (toy_text / "valid.words").read_text() + (toy_text / "valid.digits").read_text()
    text.write_text(lines)
    run(
        *("fairseq-preprocess", "--only-source", "--srcdict", toy_data / "dict.words.txt"),
        *("--trainpref", text, "--validpref", text, "--destdir", binary),
    )
    sizes = ("--decoder-embed-dim", "16", "--decoder-layers", "1", "--decoder-attention-heads", "2")
    run(
        *("fairseq-train", binary, "--user-dir", PACKAGE, "--task", "language_modeling"),
        *("--arch", "transformer_lm"),
        *(*sizes, "--tokens-per-sample", "64", "--max-tokens", "512", "--max-update", "20"),
        *("--sample-break-mode", "eos", "--optimizer", "adam", "--lr", "0.01"),
        *("--save-dir", tmp_path, "--no-epoch-checkpoints", "--disable-validation", "--cpu"),
    )
    model, lm = trained / "checkpoint_last.pt", tmp_path / "checkpoint_last.pt"
    ratio = ("--fluency-boost-ratio", "1.01")
    boost = ("--fluency-boost-lm", lm, "--fluency-boost-data", binary)
    search = ("--beam", "5", "--nbest", "5", "--lenpen", "1", "--max-len-b", "40")
    words = ("fairseq-generate", toy_data, *TASK, "--gen-subset", "valid", "--cpu", "--path", model)
    shown = [
        re.findall(r"^H-(\d+)\t\S+\t(.*)$", run(*words, *search, *flags).stdout, re.M)
        for flags in ((), (*boost, *ratio))
    ]
    before, kept = ([(int(number), words) for number, words in hits if words] for hits in shown)
    assert 0 < len(kept) < len(before)
    assert set(kept) < set(before)
    made, given = tmp_path / "made", tmp_path / "given"
    run(
        *("fairseq-ssl", "back-translate", toy_text / "valid.words", "--model", model, *search),
        *(*boost, "--data-dir", toy_data, "-o", made, "--source-output", given, "--jobs", "1"),
        f"--fairseq-options={' '.join(ratio)}",
    )
    kept.sort(key=lambda pair: pair[0])
    sources = (toy_text / "valid.words").read_text().splitlines()
    assert made.read_text().splitlines() == [line for _, line in kept]
    assert given.read_text().splitlines() == [sources[number] for number, _ in kept]
