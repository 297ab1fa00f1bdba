"""Official archives of learner corpora become text without sentences of the held-out sets."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.conftest import ROOT, environment
from tests.recipes.recipe import called, lines, script, step

SCRIPT = ROOT / "examples/common/learner_text.sh"
VALID = 4
ANIMALS = ("cats", "dogs", "owls", "bats", "rats", "hens", "pigs", "cows", "bees", "ants")
PLACES = {"A": "home", "B": "school", "C": "sea", "fce": "work"}


def block(source: str, edit: str = "-1 -1|||noop|||-NONE-") -> str:
    return f"S {source}\nA {edit}|||REQUIRED|||-NONE-|||0\n\n"


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def learners(place: str) -> str:
    """A corpus of ten sentences about a place."""
    edit = "2 3|||R:VERB:SVA|||go"
    return "".join(block(f"The {animal} goes to {place} .", edit) for animal in ANIMALS)


@pytest.fixture
def archives(tmp_path: Path) -> dict[str, str]:
    """The folders of tiny archives. Sentences of held-out sets are in the training text."""
    wi, fce, jfleg, imdb = (tmp_path / name for name in ("wi+locness", "fce", "jfleg", "aclImdb"))
    leaks = {
        "A": block("We sees an owl .", "1 2|||R:VERB:SVA|||see"),  # the corrected side is in dev
        "B": block("It Ca n't be true !"),  # in jfleg, with other tokens
        "C": block("Only the test has this ."),
    }
    for level in "ABC":
        corpus = learners(PLACES[level]) + leaks[level]
        write(wi / f"m2/{level}.train.gold.bea19.m2", corpus)
    emptied = block("??? what", "0 2|||U:OTHER|||")
    write(fce / "m2/fce.train.gold.bea19.m2", learners(PLACES["fce"]) + emptied)
    dev = {
        "A": block("We see a owl .", "2 3|||R:DET|||an"),
        "B": block("B one .") + block("B two ."),
        "C": block("C one ."),
        "N": block("N one ."),
    }
    for level, text in (*dev.items(), ("ABCN", "".join(dev.values()))):
        write(wi / f"m2/{level}.dev.gold.bea19.m2", text)
    write(wi / "test/ABCN.test.bea19.orig", "Only the test has this .\n")
    for name in ("src", "ref0", "ref1", "ref2", "ref3"):
        write(jfleg / f"dev/dev.{name}", f"It can 't be true ! \n{name} is a good film . \n")
    for number, folder in enumerate(
        ("train/pos", "train/neg", "train/unsup", "test/pos", "test/neg")
    ):
        seen = f"I saw film number {number} twice.<br /><br />It\u2019s {ANIMALS[number]}! Bad."
        write(imdb / folder / "0_1.txt", f"{seen} Ref2 is a good film. I liked it.\n")
    folders = {"WI_LOCNESS": wi, "FCE": fce, "JFLEG": jfleg, "IMDB": imdb}
    return {name: str(folder) for name, folder in folders.items()}


def convert(archives: dict[str, str], work: Path, code: int = 0, **settings: str) -> str:
    """Run the script. Return its output."""
    plain = environment(
        **{**archives, "WORK": str(work), "VALID": str(VALID), "JOBS": "1", **settings}
    )
    done = subprocess.run(["bash", str(SCRIPT)], env=plain, capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


def letters(line: str) -> str:
    return "".join(char for char in line.lower() if char.isalnum())


def test_text_has_no_held_out_sentence(archives: dict[str, str], tmp_path: Path) -> None:
    work = tmp_path / "work"
    shown = convert(archives, work)
    clean = [f"The {animal} go to {place} ." for place in PLACES.values() for animal in ANIMALS]
    train, valid = (
        [*zip(*(lines(work / f"{n}.{s}") for s in ("src", "trg")), strict=True)]
        for n in ("train", "valid")
    )
    assert len(valid) == VALID
    assert sorted(target for _, target in train + valid) == sorted(clean)
    assert all(source == target.replace("go", "goes") for source, target in train + valid)
    assert len({source.split()[-2] for source, _ in train[:12]}) > 2, "all corpora are mixed"
    levels = {place: level for level, place in PLACES.items()}
    for name, part in (("train", train), ("valid", valid)):
        assert lines(work / f"{name}.levels") == [levels[source.split()[-2]] for source, _ in part]
    assert lines(work / "valid.m2")[0] == f"S {valid[0][0]}"
    assert lines(work / "dev.levels") == list("ABBCN")
    assert lines(work / "dev.trg")[0] == "We see an owl ."
    assert lines(work / "jfleg.src") == ["It can 't be true !", "src is a good film ."]

    text = lines(work / "imdb.txt") + lines(work / "imdb.valid.txt")
    films = [f"I saw film number {number} twice ." for number in range(5)]
    assert sorted(text) == sorted([*films, *(f"It 's {a} !" for a in ANIMALS[:5]), "I liked it ."])
    assert len(lines(work / "imdb.valid.txt")) == VALID

    content = json.loads((work / "learner_text.json").read_text("utf-8"))
    found = content["texts"]
    removed = {"empty": 1, "dev": 1, "bea": 1, "jfleg": 1, "valid": 0}
    assert found["train"] == {
        "read": 44,
        "removed": removed,
        "held_out": VALID,
        "sentences": 36,
        "words": 36 * 6,
    }
    assert found["imdb"]["removed"] == {"dev": 0, "bea": 0, "jfleg": 1, "valid": 0, "imdb.valid": 0}
    assert found["imdb"]["read"] == 12  # different, and of three words or more
    assert content["held_out"]["dev"] == 6  # a sentence with an edit has two sides
    assert "| train | 44 | 1 | 1 | 1 | 1 | 0 | 0 | 4 | 36 | 216 |" in shown

    before = (work / "imdb.txt").read_text("utf-8")
    (work / "imdb.txt").unlink()
    resumed = convert(archives, work).splitlines()
    assert [line for line in resumed if not line.startswith(("==>", "|", "up to date: "))] == []
    assert sum(line.startswith("up to date: ") for line in resumed) > 5
    assert (work / "imdb.txt").read_text("utf-8") == before
    assert "VALID was '4', is '5'" in convert(archives, work, 2, VALID="5")
    write(Path(archives["WI_LOCNESS"]) / "m2/A.train.gold.bea19.m2", learners("the zoo"))
    assert "A.train.gold.bea19.m2 has changed" in convert(archives, work, 2)


def test_held_out_sentences_depend_on_the_sentences_alone(
    archives: dict[str, str], tmp_path: Path
) -> None:
    convert({**archives, "IMDB": ""}, tmp_path / "one")
    folder = Path(archives["WI_LOCNESS"]) / "m2"
    first, second = (folder / f"{level}.train.gold.bea19.m2" for level in "AC")
    shutil.move(first, tmp_path / "other")
    shutil.move(second, first)
    shutil.move(tmp_path / "other", second)
    convert({**archives, "IMDB": "", "JFLEG": ""}, tmp_path / "two")
    one, two = (lines(tmp_path / f"{name}/valid.src") for name in ("one", "two"))
    assert sorted(one) == sorted(two)
    sources = {letters(f"The {a} goes to {p} .") for p in PLACES.values() for a in ANIMALS}
    hashes = {hashlib.blake2b(s.encode(), digest_size=16).hexdigest(): s for s in sources}
    assert sorted(map(letters, one)) == sorted(hashes[h] for h in sorted(hashes)[:VALID])
    assert not (tmp_path / "two/jfleg.src").exists()


def test_copies_of_held_out_sentences_are_removed(tmp_path: Path) -> None:
    module = script(ROOT / "examples/common/learner_text.py")
    write(tmp_path / "a.m2", "".join(block(f"go {animal} !") for animal in ANIMALS) * 3)
    module.pairs([tmp_path / "a.m2"], module.HeldOut([]), 3, tmp_path)
    counts = json.loads((tmp_path / "train.counts.json").read_text("utf-8"))
    assert counts == {"read": 30, "held_out": 3, "removed": {"empty": 0, "valid": 6}}
    train, valid = (
        re.findall("S (.*)", (tmp_path / f"{n}.m2").read_text("utf-8")) for n in ("train", "valid")
    )
    assert (len(train), len(valid)) == (21, 3)
    assert not set(train) & set(valid)
    write(tmp_path / "train.src", f"{train[0]}\n")
    write(tmp_path / "train.trg", f"{valid[0].upper()}\n")
    write(tmp_path / "held", f"{valid[0]}\n")
    with pytest.raises(module.DataError, match=r"sentences of held-out sets: {'valid': 1}"):
        module.report(
            [tmp_path / "train"], module.HeldOut([f"valid={tmp_path}/held"]), tmp_path / "out"
        )


def test_missing_files_are_listed(archives: dict[str, str], tmp_path: Path) -> None:
    (Path(archives["WI_LOCNESS"]) / "m2/B.train.gold.bea19.m2").unlink()
    (Path(archives["JFLEG"]) / "dev/dev.ref2").unlink()
    shutil.rmtree(Path(archives["IMDB"]) / "train/unsup")
    shown = convert({**archives, "FCE": ""}, tmp_path / "work", 2).splitlines()[1:]
    missing = ("B.train.gold.bea19.m2", "FCE", "dev.ref2", "train/unsup")
    assert all(name in line for name, line in zip(missing, shown, strict=True))
    assert not (tmp_path / "work/dev.m2").exists()


def test_a_dry_run_without_archives_lists_all_commands() -> None:
    """Each is a program, not a function of the script."""
    names = ("WI_LOCNESS", "FCE", "JFLEG", "CONLL14", "IMDB")
    settings = {name: f"/archives/{name}" for name in names} | {"DRY_RUN": "1", "WORK": "/work"}
    shown = step(SCRIPT, settings | {"LINES": "24"}).stdout
    commands = [line.split() for line in shown.splitlines() if not line.startswith("#")]
    assert {words[0] for words in commands} == {"awk", "cat", "fairseq-ssl", "python", "sed"}
    steps = [words[1] for words in called(commands, "python")]
    assert steps == ["pairs", "sentences", "monolingual", "report"]
    assert all(any(name in line for line in shown.splitlines()) for name in names)
    assert "--lines 1200000" in shown, "not the height of the terminal, which bash sets LINES to"
