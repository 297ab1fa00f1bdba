"""fairseq-generate and fairseq-interactive with an edit tagger."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest

import fairseq_ssl
from fairseq_ssl.cli.main import main as fairseq_ssl_command
from fairseq_ssl.edits.dictionary import EditDictionary
from fairseq_ssl.errors import ConfigurationError
from tests.conftest import Run
from tests.plugin.edit_corpus import TASK
from tests.plugin.runs import parsed

fairseq_ssl.register()
from fairseq import checkpoint_utils, options, tasks  # noqa: E402
from fairseq.dataclass.utils import convert_namespace_to_omegaconf  # noqa: E402
from fairseq_cli import generate, preprocess, train  # noqa: E402

pytestmark = [  # warnings of Hydra, the data loader, and fairseq with recent PyTorch
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]
MODEL = (
    *("--arch", "edit_tagger_small", "--encoder-layers", "1", "--encoder-embed-dim", "32"),
    *("--encoder-ffn-embed-dim", "32", "--max-source-positions", "20", "--edit-detection"),
)
TRAINING = (
    *("--criterion", "edit_cross_entropy", "--optimizer", "adam", "--lr", "0.01"),
    *("--batch-size", "50", "--max-epoch", "4", "--no-epoch-checkpoints", "--cpu"),
    *("--disable-validation", "--num-workers", "0"),
)


def wrong_and_right(draw: random.Random) -> tuple[str, str]:
    """Return random text and its correction: teh -> the, very is deleted, too follows me."""
    rare = f"w{draw.getrandbits(30)}"
    right = draw.choices(["the", "a", "dog", "cats", "see", "run", rare], k=draw.randint(2, 8))
    wrong = [word if word != "the" or draw.random() < 0.5 else "teh" for word in right]
    for place in range(len(right), 0, -1):
        if draw.random() < 0.1:
            wrong.insert(place, "very")
    if draw.random() < 0.5:
        right += ["me", "too"]
        wrong += ["me", *draw.choices([[], ["too"]])[0]]
    return " ".join(wrong), " ".join(right)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, raw and binarized, and an edit tagger trained on it."""
    folder = tmp_path_factory.mktemp("edits")
    draw = random.Random(1)
    for split, count in (("train", 1500), ("valid", 30)):
        pairs = [wrong_and_right(draw) for _ in range(count)]
        if split == "valid":
            pairs[3] = ("Berlin see teh new dogs ?", "Berlin see the new dogs ?")
        for side, lines in zip(("src", "trg"), zip(*pairs, strict=True), strict=True):
            (folder / f"{split}.{side}").write_text("".join(f"{line}\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        binarize()
        train.main(parsed("bin", *TASK, *MODEL, *TRAINING, "--seed", "1", "--save-dir", "a"))
    return folder


def binarize() -> None:
    """Write bin/ with edits, and raw/ with valid as text, in the working folder."""
    both = ["train.src", "train.trg"]
    fairseq_ssl_command(["edits", "dictionary", *both, "-o", "bin/edits.txt"])
    label = ["edits", "label", *both, "--dictionary", "bin/edits.txt", "-o", "train.edits"]
    fairseq_ssl_command(label)
    edits = EditDictionary.read(Path("bin/edits.txt"))
    edits.write_for_fairseq(Path("dict.edits.txt"))
    sides = "--joined-dictionary -s src -t trg"
    for words in (
        f"{sides} --trainpref train --validpref valid --destdir bin --thresholdsrc 4",
        "--only-source -s edits --srcdict dict.edits.txt --trainpref train --destdir bin",
        f"{sides} --srcdict bin/dict.src.txt --validpref valid --destdir raw --dataset-impl raw",
    ):
        preprocess.main(options.get_preprocessing_parser().parse_args(words.split()))
    edits.write(Path("raw/edits.txt"))


Lines = dict[str, dict[int, str]]


def lines_of(shown: str) -> Lines:
    """Parse the lines that fairseq prints, by letter and sentence id."""
    found: Lines = {}
    for letter, number, line in re.findall(r"^([STHDPAI])-(\d+)\t(.*)$", shown, re.M):
        found.setdefault(letter, {})[int(number)] = line
    return found


def configuration(folder: Path, data: str, *flags: str) -> Any:
    """Return the configuration of fairseq-generate."""
    words = [str(folder / data), *TASK, "--path", str(folder / "a/checkpoint_last.pt"), "--cpu"]
    words += ["--gen-subset", "valid", "--num-workers", "0", *flags]
    return convert_namespace_to_omegaconf(
        options.parse_args_and_arch(options.get_generation_parser(), words)
    )


def generated(folder: Path, data: str, results: Path, *flags: str) -> Lines:
    """Return the parsed output of fairseq-generate for valid."""
    generate.main(configuration(folder, data, "--results-path", str(results), *flags))
    return lines_of((results / "generate-valid.txt").read_text())


def test_generate_output(run: Run, folder: Path) -> None:
    words = ("fairseq-generate", "bin", *TASK, "--path", "a/checkpoint_last.pt", "--cpu")
    flags = ("--gen-subset", "valid", "--batch-size", "8", "--print-step", "--print-edits")
    done = run(*words, *flags, "--retain-iter-history", cwd=folder)
    lines = lines_of(done.stdout)
    assert {letter: len(lines[letter]) for letter in "STHDPAI"} == dict.fromkeys("STHDPAI", 30)
    texts = {at: line.split("\t")[1] for at, line in lines["H"].items()}
    assert texts == {at: line.split("\t")[1] for at, line in lines["D"].items()}
    assert texts[3] == "<unk> see the <unk> <unk> <unk>"
    wanted = {at: line.replace("<<unk>>", "<unk>") for at, line in lines["T"].items()}
    assert sum(texts[at] == line for at, line in wanted.items()) >= 27
    assert all(len(lines["P"][at].split()) == len(text.split()) + 1 for at, text in texts.items())
    assert re.fullmatch(r"1:3-REPLACE_the:(1.000|0.\d{3})", lines["A"][3])
    assert lines["I"][3] == "2"
    assert re.findall(r"^E-3_\d\t(.*)$", done.stdout, re.M) == [texts[3]] * 2
    for at, line in lines["S"].items():
        if not lines["A"][at]:
            assert (texts[at], lines["I"][at]) == (line, "1")
    assert re.search(r"BLEU4 = \d+", done.stdout)


def test_raw_text_keeps_unknown_words(folder: Path, tmp_path: Path) -> None:
    raw = generated(folder, "raw", tmp_path, "--dataset-impl", "raw")
    assert raw["S"][3] == "Berlin see teh new dogs ?"
    assert raw["H"][3].split("\t")[1] == raw["T"][3] == "Berlin see the new dogs ?"
    raw["H"][3] = raw["H"][3].replace("Berlin", "<unk>").replace("new dogs ?", "<unk> <unk> <unk>")
    closed = {at: re.sub(r"\bw\d+", "<unk>", line) for at, line in raw["H"].items()}
    assert closed == generated(folder, "bin", tmp_path)["H"]


def test_interactive_with_unknown_words_long_and_empty_lines(run: Run, folder: Path) -> None:
    long = " ".join(["see the dog teh"] * 40)
    given = ["Teh dog see teh very nice cats me", "", long, "the", "a </s> teh"]
    words = ("fairseq-interactive", "bin", *TASK, "--path", "a/checkpoint_last.pt", "--cpu")
    flags = ("--buffer-size", "5", "--batch-size", "5", "--print-edits")
    done = run(*words, *flags, cwd=folder, text="".join(f"{line}\n" for line in given))
    lines = lines_of(done.stdout)
    texts = {at: line.split("\t")[1] for at, line in lines["H"].items()}
    windows = texts.pop(2).split()
    assert texts == {0: "Teh dog see the nice cats me too", 1: "", 3: "the", 4: "a the"}
    assert [lines["A"][at].count(":") for at in (0, 1, 3, 4)] == [3 * 2, 0, 0, 2]
    assert [windows.count(word) for word in ("see", "dog", "teh")] == [40, 40, 0]
    assert lines["A"][2].count(":") >= 40 * 2
    assert lines["P"][2].count(" ") == len(windows)


def test_bias_and_thresholds_are_options_of_generate(folder: Path, tmp_path: Path) -> None:
    def edits(*flags: str) -> int:
        found = generated(folder, "bin", tmp_path, "--print-edits", *flags)
        return sum(len(line.split()) for line in found["A"].values())

    assert edits() > 10
    for flag in ("--edit-keep-bias", "--edit-min-sentence-confidence", "--edit-min-confidence"):
        assert edits(flag, "1") == 0


@pytest.mark.parametrize(
    "flags",
    [
        *("--replace-unk --dataset-impl raw", "--print-alignment", "--prefix-size 1"),
        *("--constraints", "--sampling --beam 1", "--score-reference", "--edit-iterations 0"),
        "--edit-keep-bias nan",
    ],
)
@pytest.mark.slow
def test_options_without_effect_are_rejected(folder: Path, flags: str) -> None:
    cfg = configuration(folder, "bin", *flags.split())
    task = tasks.setup_task(cfg.task)
    models, _ = checkpoint_utils.load_model_ensemble([cfg.common_eval.path], task=task)
    with pytest.raises(ConfigurationError, match=flags.split()[0]):
        task.build_generator(models, cfg.generation)


def test_options_of_beam_search_are_ignored(folder: Path, tmp_path: Path) -> None:
    flags = ("--beam", "2", "--nbest", "2", "--lenpen", "3")
    plain = generated(folder, "bin", tmp_path)
    assert generated(folder, "bin", tmp_path, *flags) == plain
