"""Archives in their published layout become the data of the recipe of PoDA."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from tests.conftest import ROOT, Run
from tests.recipes.recipe import lines, printed, put, script, step
from tests.recipes.stand_ins import stub_commands

RECIPE = ROOT / "examples/poda"
SCRIPTS = RECIPE / "data"
archives = script(SCRIPTS / "archives.py")


def pairs(prefix: Path) -> list[tuple[str, str]]:
    source, target = (lines(prefix.with_name(f"{prefix.name}.{side}")) for side in ("src", "trg"))
    return list(zip(source, target, strict=True))


def m2(source: str, *edits: str) -> Iterator[str]:
    """Yield the lines of a block. Edits are of annotator 0, with a + of annotator 1."""
    yield f"S {source}"
    for edit in edits or ("-1 -1|||noop|||-NONE-",):
        yield f"A {edit.removeprefix('+')}|||REQUIRED|||-NONE-|||{int(edit.startswith('+'))}"
    yield ""


def entry(count: int, *columns: str) -> str:
    return "\t".join((str(count), "296282", "http://lang-8.com/1/journals/2", "1", *columns))


LANG8: dict[str, Iterable[str]] = {
    "entries.train": (
        entry(2, "The dog do n't barks .", "The dog don't bark.", 'The dog says " no " .'),
        entry(0, "A good sentence ."),
        "",
        entry(1, "The cat sleeps .", "The cat sleeps."),
    ),
    "lang8.train.auto.bea19.m2": (
        *m2("The dog do n't barks .", "4 5|||R:VERB|||bark", '+2 5|||R:VERB|||says " no "'),
        *m2("A good sentence ."),
    ),
    "lang-8-20111007-L1-v2.dat": (
        '["772869","227504","English","Spanish",["The dog don\'t\tbarks.","A good one.","Alone."],'
        '[["The dog don\'t [f-blue]bark[/f-blue][sline]s[/sline].","The dog says \\"no\\"."],'
        '["A good one."],[]]]',
        '["1", "2", "English", broken',
        json.dumps(["3", "4", "Japanese", "English", ["\u72ac"], [["\u732b"]]]),
    ),
}
LANG8_PAIRS = [
    ("The dog do n't barks .", "The dog do n't bark ."),
    ("The dog do n't barks .", 'The dog says " no " .'),
]
BARKS = "2 3|||R:VERB:SVA|||barks"


def write_grammar(folder: Path) -> dict[str, str]:
    """Write archives of learner English. Return the settings with their folders."""
    names = ("LANG8", "NUCLE", "FCE", "CONLL13", "CONLL14", "JFLEG")
    folders = {name: folder / name.lower() for name in names}
    put(folders["LANG8"] / "entries.train", *LANG8["entries.train"])
    nucle = [*m2("A owl see .", "0 1|||ArtOrDet|||An", "2 3|||SVA|||sees", "2 3|||Vt|||saw")]
    nucle += [*m2("Fine ."), *m2("??", "0 1|||Others|||")]  # the last target is empty
    put(folders["NUCLE"] / "data/conll14st-preprocessed.m2", *nucle)
    for part in ("train", "dev", "test"):
        text = m2(f"The {part} bark .", BARKS)
        put(folders["FCE"] / f"m2/fce.{part}.gold.bea19.m2", *text)
    conll13 = m2("The fox bark .", BARKS)
    put(folders["CONLL13"] / "original/data/official-preprocessed.m2", *conll13)
    conll14 = m2("The wolfs bark .", "1 2|||Nn|||wolf", f"+{BARKS}")
    put(folders["CONLL14"] / "noalt/official-2014.combined.m2", *conll14)
    for part in ("dev", "test"):
        put(folders["JFLEG"] / f"{part}/{part}.src", f"The {part} bark . ")
        for number in range(4):
            put(folders["JFLEG"] / f"{part}/{part}.ref{number}", f"The {part} barks {number} . ")
    return {name: str(folder) for name, folder in folders.items()}


def write_gigaword(folder: Path) -> dict[str, str]:
    for articles, titles, rare in (
        ("train/train.article.txt", "train/train.title.txt", "<unk>"),
        ("train/valid.article.filter.txt", "train/valid.title.filter.txt", "<unk>"),
        ("Giga/input.txt", "Giga/task1_ref0.txt", "UNK"),
    ):
        put(folder / articles, f"the {rare} -lrb- # -rrb- said <unk>s .", f"{rare}")
        put(folder / titles, f"{rare} said", "")
    return {"GIGAWORD": str(folder)}


def write_stories(folder: Path, tokenized: bool = True) -> dict[str, str]:
    """Write stories, of which one per split has no article, and lists of their URLs."""
    folders = {name: folder / name.lower() for name in ("CNN", "DAILYMAIL", "URL_LISTS")}
    highlights = ("The Owl won '", "It said `` No . ''", "It left")
    end = [line for text in highlights for line in ("@highlight", "", text, "")]
    for number, split in enumerate(("train", "val", "test")):
        urls = []
        for name, text in (("CNN", f"Yes {number}"), ("DAILYMAIL", f"No {number}"), ("CNN", "")):
            article = f"{text}, said the Owl in a caption"
            article = article.replace(",", " ,") if tokenized else article
            urls.append(f"http://web.archive.org/{split}/{name}/{len(text)}")
            path = folders[name] / f"{hashlib.sha1(urls[-1].encode()).hexdigest()}.story"
            put(path, *((article, "", "It won!", "", *end) if text else end))
        put(folders["URL_LISTS"] / f"all_{split}.txt", *urls)
    return {name: str(folder) for name, folder in folders.items()}


def check_stories(folder: Path) -> None:
    summary = "the owl won ' <q> it said `` no . '' <q> it left ."
    for number, name in enumerate(("train", "valid", "test")):
        article = "{} {} , said the owl in a caption . it won!"
        assert pairs(folder / name) == [(article.format(w, number), summary) for w in ("yes", "no")]


def write_monolingual(folder: Path) -> dict[str, str]:
    """Write the output of WikiExtractor and the Billion Word Benchmark."""
    wikipedia, billion = folder / "wiki", folder / "billion"
    owls = '<doc id="12" url="https://en.wikipedia.org/wiki?curid=12" title="Owls &amp; Bats">'
    text = "Owls aren\u2019t bats. They &lt;hoot&gt;, e.g. at night (or day)."
    article = ("Owls &amp; Bats", "", text, "", "Owls &amp; Bats")
    put(wikipedia / "AA/wiki_00", owls, *article, "</doc>")
    put(wikipedia / "AB/wiki_10", owls, "A text without a title line.", "</doc>")
    shards = billion / "training-monolingual.tokenized.shuffled"
    put(shards / "news.en-00001-of-00100", "One 's , can 't , don 'ts", "a " * 501)
    put(shards / "news.en-00002-of-00100", "b " * 500)
    put(billion / "heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050", "no")
    return {"WIKIPEDIA": str(wikipedia), "BILLION": str(billion), "JOBS": "1"}


WRITERS: dict[str, Callable[[Path], dict[str, str]]] = {
    "grammar": write_grammar,
    "summarization": lambda folder: write_gigaword(folder / "sumdata") | write_stories(folder),
    "pretraining": write_monolingual,
}


def convert(name: str, settings: dict[str, str], work: Path, code: int = 0) -> str:
    """Run a script. Return its output."""
    done = step(SCRIPTS / f"{name}.sh", {**settings, "WORK": str(work)}, code)
    assert "Traceback" not in done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def shown() -> dict[str, str]:
    """The output of the scripts that wrote `data`."""
    return {}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory, shown: dict[str, str]) -> Path:
    """The converted archives."""
    folder = tmp_path_factory.mktemp("the data")
    for name, write in WRITERS.items():
        shown[name] = convert(name, write(folder / "archives"), folder / "data")
    return folder / "data"


def test_grammar_has_the_sets_of_the_paper(data: Path, shown: dict[str, str]) -> None:
    train = [*LANG8_PAIRS, ("A owl see .", "An owl sees ."), ("Fine .", "Fine .")]
    train += [(f"The {part} bark .", f"The {part} barks .") for part in ("train", "dev", "test")]
    assert pairs(data / "conll/train") == pairs(data / "jfleg/train") == train
    assert pairs(data / "conll/valid") == [("The fox bark .", "The fox barks .")]
    assert pairs(data / "conll/test") == [("The wolfs bark .", "The wolf bark .")]
    gold = data.parent / "archives/conll14/noalt/official-2014.combined.m2"
    assert (data / "conll/test.m2").read_bytes() == gold.read_bytes()
    assert lines(data / "conll/valid.m2")[0] == "S The fox bark ."
    for name, part in (("valid", "dev"), ("test", "test")):
        assert pairs(data / f"jfleg/{name}") == [(f"The {part} bark .", f"The {part} barks 0 .")]
        assert lines(data / f"jfleg/{name}.ref3") == [f"The {part} barks 3 ."]
    assert "Lang-8: 2 lines, 12 words; paper: 1,097,274" in shown["grammar"]


@pytest.mark.parametrize("release", LANG8)
def test_lang8_gives_the_pairs_with_edits(release: str, tmp_path: Path) -> None:
    put(tmp_path / release, *LANG8[release])
    assert list(archives.lang8(tmp_path / release)) == LANG8_PAIRS


def test_summaries_have_sentence_marks(data: Path, shown: dict[str, str]) -> None:
    for name in ("train", "valid", "test"):
        found = pairs(data / f"gigaword/{name}")
        assert found == [("the UNK -lrb- # -rrb- said <unk>s .", "UNK said"), ("UNK", "")]
    check_stories(data / "cnndm")
    assert "CNN/Daily Mail train: 2 lines, 24 words; paper: 287,113" in shown["summarization"]


def test_pretraining_text_is_tokenized(data: Path, shown: dict[str, str]) -> None:
    assert lines(data / "wikipedia.txt") == [
        "Owls are n't bats . They < hoot > , e.g. at night ( or day ) .",
        "Owls & Bats",  # not the title
        "A text without a title line .",
    ]
    assert lines(data / "billion.txt") == ["One 's , ca n't , don 'ts", "b " * 500]
    assert "Billion Word Benchmark: 2 lines, 508 words; paper: 0.76" in shown["pretraining"]


def test_the_recipe_accepts_the_data(data: Path, tmp_path: Path) -> None:
    settings = {"SCALE": "paper", "DATA_DIR": str(data), "WORK": str(tmp_path)}
    settings["SETS"] = "valid test"
    words = {Path(word) for words in printed(RECIPE, "prepare", settings) for word in words}
    read = {path for path in words if data in path.parents}
    assert {path.name for path in read} >= {"wikipedia.txt", "billion.txt"}
    assert all(path.exists() for path in read)
    step(RECIPE / "1_prepare.sh", {**settings, "HELD_OUT": "1", "LEAST_COUNT": "1"})
    for task in ("cnndm", "gigaword", "conll", "jfleg"):
        prepared = tmp_path / f"data/{task}.all/train.src-trg.src"
        assert prepared.read_bytes() == (data / task / "train.src").read_bytes()
    words = {Path(word) for words in printed(RECIPE, "score", settings) for word in words}
    gold = {path for path in words if path.suffix in (".m2", ".ref0", ".ref3", ".trg")}
    names = {f"{name}{end}" for name in ("valid", "test") for end in (".m2", ".ref3", ".trg")}
    assert {path.name for path in gold} >= names
    assert all(path.exists() for path in gold)


def test_archives_in_other_layouts(tmp_path: Path) -> None:
    """Gigaword in one folder, and the pairs of CNN/Daily Mail that OpenNMT publishes."""
    settings = write_gigaword(tmp_path / "sumdata") | {"CNNDM": str(tmp_path / "pairs")}
    for path in [*(tmp_path / "sumdata").glob("*/*")]:
        path.rename(tmp_path / "sumdata" / path.name)
    for split in ("train", "val", "test"):
        tagged = "<t> the owl won . </t> <t> it left . </t>"
        put(tmp_path / f"pairs/{split}.txt.src", "an owl won . it left .", "")
        put(tmp_path / f"pairs/{split}.txt.tgt.tagged", tagged, tagged)
    convert("summarization", {**settings, "SENTENCE_MARK": "<sep>"}, tmp_path)
    expected = [("an owl won . it left .", "the owl won . <sep> it left .")]
    assert pairs(tmp_path / "cnndm/train") == pairs(tmp_path / "cnndm/valid") == expected
    assert pairs(tmp_path / "gigaword/test")[1] == ("UNK", "")


def test_stories_are_tokenized_by_corenlp(tmp_path: Path) -> None:
    java = """
[[ "$*" == "-cp /corenlp.jar edu.stanford.nlp.process.PTBTokenizer -ioFileList -preserveLines "* ]]
while read -r from to; do sed 's/,/ ,/g' "$from" >"$to"; done <"${@: -1}"
"""
    settings = write_stories(tmp_path, tokenized=False) | {"CORENLP": "/corenlp.jar"}
    settings |= stub_commands(tmp_path / "bin", {"java": java})
    convert("summarization", settings, tmp_path / "work")
    check_stories(tmp_path / "work/cnndm")


@pytest.mark.parametrize(
    ("name", "removed"),
    [
        ("grammar", "lang8/entries.train fce/m2/fce.dev.gold.bea19.m2 jfleg/test/test.ref2"),
        ("summarization", "sumdata/Giga/input.txt url_lists/all_val.txt"),
        ("pretraining", "wiki/AA/wiki_00"),
    ],
)
def test_missing_files_are_listed(name: str, removed: str, tmp_path: Path) -> None:
    settings = WRITERS[name](tmp_path)
    for path in removed.split():
        (tmp_path / path).unlink()
    problems = convert(name, settings, tmp_path / "work", 2).splitlines()
    for line, path in zip(problems, removed.split(), strict=True):
        assert Path(path).name in line
    assert not (tmp_path / "work").exists()


@pytest.mark.parametrize(
    ("command", "files", "culprit"),
    [
        ("lang8 entries.train", {"entries.train": "a\tb"}, "entries.train:1"),
        ("lang8 1.dat", {"1.dat": '["a"]'}, "1.dat"),
        ("headlines a b", {"a": "one\ntwo", "b": "one"}, "b ends after line 1"),
        ("tagged a b", {"a": "one", "b": "<s> one </s>"}, "b:1"),
        ("stories cnn dm --urls u", {"u": "\nhttp://x"}, "u:2"),
        ("stories . --urls u", {"u": "x", f"{hashlib.sha1(b'x').hexdigest()}.story": "a, b"}, "."),
        ("paragraphs wiki", {"wiki/AA/wiki_00.bz2": ""}, "wiki"),
        ("paragraphs wiki", {"wiki/AA/wiki_00": '{"id": "1"}'}, "wiki_00:1"),
    ],
)
def test_another_format_is_reported_with_its_file(
    command: str, files: dict[str, str], culprit: str, tmp_path: Path, run: Run
) -> None:
    for name, text in files.items():
        put(tmp_path / name, text)
    output = [] if command.startswith("paragraphs") else ["-o", "out"]
    words = ("python", SCRIPTS / "archives.py", *command.split(), *output)
    (message,) = run(*words, cwd=tmp_path, code=1).stderr.splitlines()
    assert culprit in message
