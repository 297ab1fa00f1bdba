"""Commands on lines write the same bytes with each executor, to files and to folders of parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl.cli.main import main
from fairseq_ssl.inference import back_translation, correction, nbest_scores
from fairseq_ssl.inference.back_translation import DECODERS, back_translate_file
from fairseq_ssl.inference.decoders import FairseqDecoder
from fairseq_ssl.inference.translation import DecodingConfig
from fairseq_ssl.io.blocks import BLOCK_SIZE
from fairseq_ssl.io.executors import RayExecutor
from tests.cli.test_learned_filter import FIT, write_texts
from tests.plugin.classification import data_folder
from tests.unit.inference import random_models
from tests.unit.inference.random_models import SOURCE_WORDS, TARGET_WORDS

LINES = 900
"""Number of lines of texts for models, which are several blocks."""
WORDS = "the cat sat on a mat , wich teh dog's lovely-eyed Owner saw ."
PART_SIZE = ("--part-size", "2K")
"""It is rounded to blocks."""


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(back_translation.BLOCK_KIB, "cpu", 1)
    for module in (correction, nbest_scores):
        monkeypatch.setattr(module, "BLOCK_KIB", 1)


def source_text(folder: Path) -> str:
    """Write random lines in the words of the random models."""
    words = SOURCE_WORDS
    rows = [[words[(line + k * k) % 7] for k in range(line % 9 + 1)] for line in range(LINES)]
    (folder / "text").write_text("".join(f"{' '.join(row)}\n" for row in rows))
    return str(folder / "text")


def english_text(folder: Path, shortest: int = 0) -> Path:
    """Write random sentences of `shortest` words or more, three blocks of `BLOCK_SIZE`."""
    random = Random(1)
    words = WORDS.split()
    with (folder / "english").open("w") as file:
        while file.tell() < 2.2 * BLOCK_SIZE:
            file.write(f"{' '.join(random.choices(words, k=random.randint(shortest, 30)))}\n")
    return folder / "english"


def noise(folder: Path) -> list[str]:
    return ["noise", str(english_text(folder, 1)), "--method", "direct,characters"]


def tokenize(folder: Path) -> list[str]:
    (folder / "case").write_text("the (9/9)\ncat (9/10) Cat (1)\n")
    words = ("--moses", "en", "--truecase", str(folder / "case"))
    return ["tokenize", str(english_text(folder)), *words]


def subwords_encode(folder: Path) -> list[str]:
    text, model = english_text(folder), folder / "bpe"
    assert main(["subwords", "train", str(text), "-o", str(model), "--size", "60"]) == 0
    return ["subwords", "encode", str(model), str(text)]


def spelling_correct(folder: Path) -> list[str]:
    correct, counts = folder / "correct", folder / "counts"
    correct.write_text("The cat sat on the mat which the dog saw .\n" * 99)
    assert main(["spelling", "count", str(correct), "-o", str(counts)]) == 0
    return ["spelling", "correct", str(english_text(folder)), "--counts", str(counts)]


def edits_label(folder: Path) -> list[str]:
    source, target, labels = english_text(folder), folder / "target", folder / "edits"
    text = source.read_text()
    target.write_text(text.replace("teh", "the").replace(" a mat", " mat").replace("wich", "which"))
    words = (str(source), str(target))
    assert main(["edits", "dictionary", *words, "-o", str(labels), "--jobs", "1"]) == 0
    return ["edits", "label", *words, "--dictionary", str(labels)]


def back_translate(folder: Path) -> list[str]:
    data = random_models.data_folder(folder / "data")
    model = random_models.translation(folder / "t.pt", data, 1)
    search = ("--sampling", "--max-len-b", "9", "--device", "cpu")
    words = ("--model", str(model), "--data-dir", str(data), *search)
    return ["back-translate", source_text(folder), *words]


def correct(folder: Path) -> list[str]:
    data = random_models.data_folder(folder / "data")
    model = random_models.encoding(
        folder / "e.pt", data, "edit_tagger", *random_models.SIZES, *random_models.HEADS
    )
    words = ("--model", str(model), "--data-dir", str(data), "--tokenizer", "none")
    return ["correct", source_text(folder), *words, "--device", "cpu"]


def rerank_features(folder: Path) -> list[str]:
    """Return the command for a list with three candidates a sentence, which parts divide."""
    data = random_models.data_folder(folder / "data")
    model = random_models.translation(folder / "t.pt", data, 1)
    with (folder / "list").open("w") as file:
        for line in range(3 * LINES):
            words = [TARGET_WORDS[(line * line + k) % 6] for k in range(line % 8 + 1)]
            file.write(f"{line // 3} ||| {' '.join(words)} ||| l2r= -1 ||| 0\n")
    words = ["--translation", str(model), "--source", source_text(folder), "--device", "cpu"]
    return ["rerank", "features", str(folder / "list"), *words, "--data-dir", str(data)]


def filtered(folder: Path) -> list[str]:
    """Return a command that drops many duplicates, in the same part and in others."""
    rows = [f"{line % 7} {line * line % 2999}\n" for line in range(200_000)]
    (folder / "text").write_text("".join(rows))
    return ["filter", str(folder / "text"), "--filter", "clean,duplicates"]


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "back-translate": back_translate,
    "correct": correct,
    "edits label": edits_label,
    "filter": filtered,
    "noise": noise,
    "rerank features": rerank_features,
    "spelling correct": spelling_correct,
    "subwords encode": subwords_encode,
    "tokenize": tokenize,
}
"""Functions that write the inputs of a command to a folder. They return the command without output
options."""


ROUNDS = {"filter": 3}
"""Number of runs of each shard for commands with several stages."""


def written(words: list[str], output: Path, *options: str) -> bytes:
    """Run a command in this process. Return its output, the concatenated parts of a folder."""
    is_folder = str(output).endswith(".parts")
    assert main([*words, "-o", f"{output}{'/' * is_folder}", *options]) == 0
    return joined(output) if is_folder else output.read_bytes()


def joined(folder: Path) -> bytes:
    """Return the concatenated parts of a complete folder."""
    assert (folder / "manifest.json").exists()
    parts = sorted(folder.glob("part-*"))
    assert len(parts) > 2
    return b"".join(part.read_bytes() for part in parts)


@pytest.mark.parametrize("name", COMMANDS)
def test_parts_and_shards_equal_a_file(name: str, tmp_path: Path) -> None:
    words = [*COMMANDS[name](tmp_path), "--jobs", "1"]
    whole = written(words, tmp_path / "whole")
    assert whole.count(b"\n") >= LINES
    assert written(words, tmp_path / "one.parts", *PART_SIZE) == whole
    for shard in ("3/3", "1/3", "2/3") * ROUNDS.get(name, 1):
        output = f"{tmp_path / 'three.parts'}/"
        assert main([*words, "-o", output, *PART_SIZE, "--shard", shard]) == 0
    assert joined(tmp_path / "three.parts") == whole


def test_a_part_can_have_no_lines(tmp_path: Path) -> None:
    """A long line begins in a part and ends in a later one."""
    words = [*correct(tmp_path), "--jobs", "1"]
    (tmp_path / "text").write_text(f"a b\n{'c ' * 2500}\na b\n")
    whole = written(words, tmp_path / "whole")
    assert main([*words, "-o", f"{tmp_path}/parts/", "--part-size", "1K"]) == 0
    parts = [path.read_bytes() for path in sorted((tmp_path / "parts").glob("part-*"))]
    assert b"" in parts
    assert b"".join(parts) == whole


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_two_processes_equal_one(name: str, tmp_path: Path) -> None:
    words = COMMANDS[name](tmp_path)
    whole = written(words, tmp_path / "whole", "--jobs", "1")
    assert written(words, tmp_path / "two", "--jobs", "2") == whole
    assert written(words, tmp_path / "two.parts", "--jobs", "2", *PART_SIZE) == whole


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    """A Ray cluster of two CPUs."""
    ray = pytest.importorskip("ray")
    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_ray_equals_one_process(name: str, cluster: None, tmp_path: Path) -> None:
    words = COMMANDS[name](tmp_path)
    whole = written(words, tmp_path / "whole", "--jobs", "1")
    ray = ("--executor", "ray")
    assert written(words, tmp_path / "ray", *ray) == whole
    assert written(words, tmp_path / "ray.parts", *ray, *PART_SIZE) == whole


@pytest.mark.slow
def test_best_pairs_of_ray_equal_one_process(
    cluster: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.chdir(tmp_path)
    write_texts(60_000)
    vectors = [str(tmp_path / f"{letter}.vec") for letter in "st"]
    assert main([*FIT, "--vectors", *vectors, "--jobs", "1", "-o", "made"]) == 0
    # A worker of Ray has another working directory.
    inputs = [str(tmp_path / name) for name in ("made", "mono.s", "mono.t")]
    words = ["learned-filter", "apply", *inputs, "--keep", "30", "-o"]
    outputs = [[f"{tmp_path}/{name}" for name in names] for names in (("x", "y"), ("v", "w"))]
    assert main([*words, *outputs[0], "--jobs", "1"]) == 0
    ray = ("--executor", "ray")
    assert main([*words, *outputs[1], *ray]) == 0
    assert main([*words, f"{tmp_path}/X/", f"{tmp_path}/Y/", *ray, "--part-size", "100K"]) == 0
    for file, other, folder in (("x", "v", "X"), ("y", "w", "Y")):
        whole = Path(file).read_bytes()
        assert Path(other).read_bytes() == joined(tmp_path / folder) == whole


@pytest.mark.slow
def test_labels_of_ray_equal_one_process(cluster: None, tmp_path: Path) -> None:
    data = data_folder(tmp_path)
    model = random_models.classifier(tmp_path / "expert.pt", data)
    words = ["classify", "label", "--model", str(model), "--data-dir", str(data)]
    words += ["--device", "cpu", "--part-size", "7"]
    assert main([*words, "--jobs", "1", "-o", str(tmp_path / "one")]) == 0
    assert main([*words, "--executor", "ray", "-o", str(tmp_path / "ray")]) == 0
    assert joined(tmp_path / "one/unlabeled.npy") == joined(tmp_path / "ray/unlabeled.npy")


class CountedDecoder(FairseqDecoder):
    """Decoder that appends the id of its process to a file when it is loaded."""

    log = Path()

    def __init__(self, *words: Any) -> None:
        with self.log.open("a") as file:
            file.write(f"{os.getpid()}\n")
        super().__init__(*words)


def count_loads(log: Path) -> None:
    """Register the plug-in, and log when this process loads a model."""
    fairseq_ssl.register()
    CountedDecoder.log = log
    DECODERS["fairseq"] = CountedDecoder


@pytest.mark.slow
@pytest.mark.parametrize("output", ["out", "out/"])
def test_a_process_of_ray_loads_a_model_once(output: str, cluster: None, tmp_path: Path) -> None:
    back_translate(tmp_path)
    config = DecodingConfig((tmp_path / "t.pt",), tmp_path / "data", max_len_b=9)
    executor = RayExecutor(initializer=partial(count_loads, tmp_path / "log"))
    target = f"{tmp_path}/{output}"
    back_translate_file(tmp_path / "text", target, config, engine="fairseq", executor=executor)
    processes = (tmp_path / "log").read_text().split()
    assert len(processes) == len(set(processes)) <= 2
