"""`add_noise` and `noise_file`: equal results and resources."""

from __future__ import annotations

import pickle
import random
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.errors import DataError, UsageError
from fairseq_ssl.io import blocks
from fairseq_ssl.io.executors import LocalExecutor
from fairseq_ssl.io.jobs import Progress
from fairseq_ssl.io.parts import PartFolder
from fairseq_ssl.noise import LearnerErrors, LineNoise, NoiseResources, add_noise, noise_file
from fairseq_ssl.text.specs import RENAMED

LINES = [f"the {word} sat on the mat with {word}s" for word in ("cat", "dog", "cow", "hen")] * 25
SETS = {"cat": ("cart",), "dog": ("dock",)}
KINDS = {"append": 0, "verb": 0, "replace": 0, "delete": 1}
ERRORS = LearnerErrors({"zzz": 3}, {"the": 2}, {}, (0, 1), KINDS)


@pytest.mark.parametrize(
    ("method", "jobs"),
    [("direct", 2), ("shuffle,characters:rate=0.1", 1), ("confusion", 1), ("learner", 2)],
)
def test_add_noise_equals_noise_file(tmp_path: Path, method: str, jobs: int) -> None:
    source, noisy = (tmp_path / name for name in ("source", "noisy"))
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    settings: Any = {"seed": 3, "resources": NoiseResources(confusion_sets=SETS)}
    files = partial(noise_file, source, noisy, method, **settings)
    summary = files(executor=LocalExecutor(jobs))
    assert summary is not None
    assert (summary.lines, summary.tokens) == (100, 800)
    assert 0 < summary.changed < 800
    assert noisy.read_text().splitlines() == add_noise(LINES, method, **settings) != LINES
    assert files() is None


@pytest.mark.parametrize(
    "method", ["direct", "shuffle,characters:rate=0.1", "confusion", "learner", "negatives"]
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_batches_of_any_size_and_order_get_the_noise_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, size: int
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 500)
    source, noisy = tmp_path / "source", tmp_path / "noisy"
    source.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    noise_file(source, noisy, method, seed=3, resources=NoiseResources(confusion_sets=SETS))
    counts = noisy.with_name("noisy.counts")
    resources = NoiseResources(counts if counts.exists() else None, confusion_sets=SETS)
    noise = pickle.loads(pickle.dumps(LineNoise(method, seed=3, resources=resources)))
    rows = list(blocks.line_rows(source))
    assert rows[-1]["block"] > 3
    random.Random(1).shuffle(rows)
    for start in range(0, len(rows), size):
        batch = rows[start : start + size]
        columns = ([row[name] for row in batch] for name in ("text", "block", "line"))
        for row, line in zip(batch, noise(*columns), strict=True):
            row["noisy"] = line
    rows.sort(key=lambda row: (row["block"], row["line"]))
    assert [row["noisy"] for row in rows] == noisy.read_text().splitlines() != LINES


def test_batches_without_counts_or_positions_are_rejected() -> None:
    with pytest.raises(UsageError, match="samples words by their frequency"):
        LineNoise("direct")
    noise = LineNoise("characters")
    assert noise([], [], []) == []
    with pytest.raises(DataError, match="the lengths 2, 1 and 2"):
        noise(["a", "b"], [0], [0, 1])
    with pytest.raises(DataError, match="Line 2 is blank"):
        noise(["a", ""], [0, 0], [0, 1])


def test_word_counts_do_not_replace_other_files(tmp_path: Path) -> None:
    source, other, output = (tmp_path / name for name in ("data.counts", "a.counts", "a"))
    source.write_text("the cat sat\n")
    other.write_text("mine\n")
    with pytest.raises(UsageError, match="must be different files"):
        noise_file(source, tmp_path / "data", "direct")
    with pytest.raises(UsageError, match=r"a\.counts exists but was not written by this job"):
        noise_file(source, output, "direct")
    assert (source.read_text(), other.read_text()) == ("the cat sat\n", "mine\n")
    assert noise_file(source, tmp_path / "data", "characters")
    other.unlink()
    for text in ("a dog barked\n", "a b\n"):  # counts of an earlier run are replaced
        source.write_text(text)
        assert noise_file(source, output, "direct", overwrite=True)
        assert set(other.read_text().split()) == {*text.split(), "1"}


def test_resources_are_used() -> None:
    drawn = add_noise(LINES, "direct:mask=0:keep=0", resources=NoiseResources(counts={"only": 1}))
    assert "only" in " ".join(drawn)
    assert not set(" ".join(drawn).split()) - set(" ".join(LINES).split()) - {"only"}
    confused = " ".join(
        add_noise(LINES, "confusion", resources=NoiseResources(confusion_sets=SETS))
    )
    assert {"cart", "dock"} & set(confused.split())
    options = "learner:measured=true"
    wrong = " ".join(add_noise(LINES, options, resources=NoiseResources(learner_errors=ERRORS)))
    assert wrong.split().count("zzz") == len(LINES)


def test_the_mask_of_a_dictionary_is_not_sampled(tmp_path: Path) -> None:
    (tmp_path / "dict.txt").write_text("the 1\n<mask> 1000\n", "utf-8")
    for counts in (tmp_path / "dict.txt", {"the": 1, "<mask>": 1000}):
        resources = NoiseResources(counts=counts)
        noisy = add_noise(LINES * 20, "direct:mask=0:keep=0", resources=resources)
        assert "the" in " ".join(noisy).split()
        assert "<mask>" not in " ".join(noisy).split()


def test_lines_and_masks_are_kept() -> None:
    assert len(add_noise(["a\u2028b c", "d\u0085e"], "characters:rate=0")) == 2
    resources = NoiseResources(confusion_sets=SETS, counts={"x": 1}, mask_token="[M]")
    chain = "direct:mask=1:keep=0,confusion:mean=0:std=0:letter-words=1"
    assert set(" ".join(add_noise(LINES, chain, resources=resources)).split()) == {"[M]"}


@pytest.mark.parametrize("line", ["", "c\nd", "a \ud800", None, b"a"])
def test_wrong_lines_are_named(line: Any) -> None:
    assert add_noise([], "direct") == []
    with pytest.raises((DataError, TypeError), match="Line 2"):
        add_noise(["a b", line, "c"], "direct")
    with pytest.raises(TypeError):
        add_noise("the cat", "direct")


@pytest.mark.parametrize("word", ["New York", "a\nb", "", "a\0"])
def test_wrong_resources_are_rejected(word: str) -> None:
    with pytest.raises(DataError):
        add_noise(["a b"], "direct", resources=NoiseResources(counts={word: 5}))
    with pytest.raises(DataError):
        add_noise(["a b"], "direct", resources=NoiseResources(counts={"a": -1}))
    with pytest.raises(UsageError, match="confusion_sets"):
        add_noise(["a b"], "confusion")


@pytest.mark.parametrize(
    "method",
    [
        *("direct:keep=nan", "direct:keep=0.8:mask=0.3", "negatives:delete=0.6:replace=0.5"),
        *("shuffle:std=0.5", "characters:letters=a b", "characters:seed=1"),
    ],
)
def test_wrong_options_are_named(method: str) -> None:
    name = method.partition("=")[0].rpartition(":")[2]
    with pytest.raises(UsageError, match=name):
        add_noise(LINES, method, resources=NoiseResources(confusion_sets=SETS))


@pytest.mark.parametrize(("old", "new"), list(RENAMED.items()))
def test_old_names_are_named_with_their_new_names(old: str, new: str) -> None:
    method = f"direct,shuffle:{old}=0.1" if old == "deviation" else f"direct,{old}"
    with pytest.raises(UsageError, match=rf"no (noise|option) '{old}'\. It is now '{new}'\.$"):
        add_noise(LINES, method)


def test_a_wrong_seed_leaves_no_file(tmp_path: Path) -> None:
    (tmp_path / "clean").write_text("a b\n")
    with pytest.raises(UsageError, match="seed"):
        noise_file(tmp_path / "clean", tmp_path / "noisy", "direct", seed=-1)
    assert not list(tmp_path.glob("noisy*"))


def test_a_text_that_changes_in_a_run_is_not_complete(tmp_path: Path) -> None:
    source, output = tmp_path / "clean", tmp_path / "noisy"
    source.write_text("the cat\n", encoding="utf-8")

    def append(task: str, unit: str, total: int | None = None) -> Progress:
        with source.open("a", encoding="utf-8") as file:
            file.write("the dog\n")
        return lambda count, fraction=None, note="": None

    assert noise_file(source, output, "characters", progress=append)
    with pytest.raises(UsageError, match="noisy exists, and is not an output of this job"):
        noise_file(source, output, "characters")


@pytest.mark.parametrize(
    "changed",
    [
        {"seed": 2},
        {"method": "characters"},
        {"resources": NoiseResources(mask_token="[M]")},
        {"resources": NoiseResources(counts={"a": 1})},
        {"resources": NoiseResources(confusion_sets=SETS)},
        {"resources": NoiseResources(learner_errors=ERRORS)},
    ],
)
def test_other_settings_are_another_job(changed: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "clean").write_text("a b c\n")
    options: dict[str, Any] = {"method": "direct"}
    assert noise_file(tmp_path / "clean", tmp_path / "noisy", **options)
    assert noise_file(tmp_path / "clean", tmp_path / "noisy", **options) is None
    with pytest.raises(UsageError, match="noisy exists, and is not an output of this job"):
        noise_file(tmp_path / "clean", tmp_path / "noisy", **(options | changed))


def test_bad_lines_are_numbered_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "BLOCK_SIZE", 16)
    lines = ["a b"] * 20 + [""] + ["c d"] * 3
    with pytest.raises(DataError, match="Line 21 is blank"):
        add_noise(lines, "characters")
    (tmp_path / "clean").write_text("".join(f"{line}\n" for line in lines))
    for output in (tmp_path / "noisy", PartFolder(tmp_path / "noisy", (2, 2), 16)):
        with pytest.raises(DataError, match="clean:21 is blank"):
            noise_file(tmp_path / "clean", output, "characters")


def test_files_of_a_text_have_different_noise(tmp_path: Path) -> None:
    (tmp_path / "clean").mkdir()
    for name in "ab":
        (tmp_path / "clean" / name).write_text("a b c d e f\n" * 9)
    assert noise_file(tmp_path / "clean", tmp_path / "noisy", "shuffle")
    assert noise_file(tmp_path / "clean", f"{tmp_path}/parts/", "shuffle")
    one, two = ((tmp_path / "parts" / f"part-0000{n}").read_text() for n in (0, 1))
    assert one != two
    assert (tmp_path / "noisy").read_text() == one + two
