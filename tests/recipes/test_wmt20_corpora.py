"""The official corpora of WMT'20 become the files of the paper scale."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.recipes.recipe import lines, step

SCRIPT = ROOT / "examples/wmt20/corpora.sh"
PREPARE = ROOT / "examples/wmt20/1_prepare.sh"


def text(name: str, language: str) -> str:
    return f"{name} in {language} & more"


def write(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = "".join(f"{line}\n" for line in lines).encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".xz":
        data = lzma.compress(data)
    path.write_bytes(data)


def table(path: Path, name: str, *columns: str) -> None:
    """Write a line with the text of languages, two letters each, and other columns."""
    write(path, ["\t".join(text(name, c) if len(c) == 2 else c for c in columns)])


def german(folder: Path) -> list[str]:
    """Write the archives. Return the parallel corpora, first those that subwords are learned on."""
    table(folder / "europarl-v10.de-en.tsv.gz", "europarl", "de", "en", "ep-00-01-17")
    table(folder / "news-commentary-v15.de-en.tsv.gz", "comments", "de", "en")
    source, target = (text("rapid", language).replace("&", "&amp;") for language in ("de", "en"))
    write(
        folder / "RAPID_2019.de-en.xlf.gz",
        [
            '<trans-unit id="1">',
            f'  <source xml:lang="de">{source}</source>',
            f'  <target xml:lang="en">{target}</target>',
            "</trans-unit>",
        ],
    )
    table(folder / "en-de.txt.gz", "paracrawl", "en", "de")
    table(folder / "wikititles-v2.de-en.tsv.gz", "titles", "de", "en")
    table(folder / "WikiMatrix.v1.de-en.langid.tsv.gz", "matrix", "1.2", "de", "en", "lid")
    for language in ("de", "en"):
        write(folder / f"commoncrawl.de-en.{language}", [text("crawl", language)])
        monolingual(folder, language)
    return ["europarl", "comments", "rapid", "paracrawl", "crawl", "titles", "matrix"]


def monolingual(folder: Path, language: str) -> None:
    table(folder / f"europarl-v10.{language}.tsv.gz", "own", language, "ep-00-01-17")
    write(folder / f"news-commentary-v15.{language}.gz", [text("opinion", language)])
    for year in range(2007, 2021):
        path = folder / f"news.{year}.{language}.shuffled.deduped.gz"
        write(path, [text(f"news {year}", language)])


def japanese(folder: Path) -> list[str]:
    table(folder / "news-commentary-v15.en-ja.tsv.gz", "comments", "en", "ja")
    table(folder / "en-ja/en-ja.bicleaner05.txt", "paracrawl", "domain", "0.7", "en", "ja")
    table(folder / "wikititles-v2.ja-en.tsv.gz", "titles", "ja", "en")
    table(folder / "WikiMatrix.v1.en-ja.langid.tsv.gz", "matrix", "1.2", "en", "ja", "lid")
    table(folder / "split/train", "subtitles", "en", "ja")
    for language in ("en", "ja"):
        write(folder / f"kftt-data-1.0/data/orig/kyoto-train.{language}", [text("kftt", language)])
        talk = ["<url>https://...</url>", text("talk", language)]
        write(folder / f"en-ja/train.tags.en-ja.{language}", talk)
    monolingual(folder, "en")
    write(folder / "news-commentary-v15.ja.gz", [text("opinion", "ja")])
    write(folder / "ja.deduped.xz", [text("crawl", "ja")])
    return ["comments", "paracrawl", "titles", "matrix", "subtitles", "kftt", "talk"]


@pytest.mark.parametrize("language", ["de", "ja"])
def test_corpora_are_those_of_section_5_2(language: str, tmp_path: Path) -> None:
    archives, data = tmp_path / "archives", tmp_path / "data"
    corpora = {"de": german, "ja": japanese}[language](archives)
    settings = {"ARCHIVES": str(archives), "DATA_DIR": str(data), "LANGUAGE": language}
    step(SCRIPT, settings)
    news = [f"news {year}" for year in range(2008, 2020)]
    for side in ("en", language):
        pairs = [text(name, side) for name in corpora]
        assert sorted(lines(data / f"train.{side}")) == sorted(pairs)
        own = ["opinion", "crawl"] if side == "ja" else ["own", "opinion", *news]
        assert lines(data / f"mono.{side}") == [text(name, side) for name in own]
        assert lines(data / f"subwords.{side}") == pairs[: 3 if language == "de" else None]
    first, second = (lines(data / f"train.{side}") for side in ("en", language))
    assert [line.replace(" en ", f" {language} ") for line in first] == second, "aligned"
    if language == "ja":
        assert lines(data / "kftt.ja") == [text("kftt", "ja")]
        assert lines(data / "news-commentary.en") == [text("comments", "en")]
    given = {"SCALE": "paper", "SOURCE": "en", "TARGET": language, "DATA_DIR": str(data)}
    given |= {"WORK": str(tmp_path / "work")}
    shown = step(PREPARE, given, 2).stderr
    assert f"{data}/newstest2020.{language} does not exist." in shown
    assert f"{data}/train." not in shown
    assert ("orig-en" in shown) == (language == "de"), "files of the last steps"
    assert "orig-en" not in step(PREPARE, given | {"ROWS": "a b"}, 2).stderr
    years = step(PREPARE, given | {"ROWS": "a", "SYSTEMS": "tagged@50"}, 2).stderr
    assert ("newstest2009.en" in years) == (language == "de"), "clean pairs of the filter"


def test_all_missing_archives_are_named(tmp_path: Path) -> None:
    german(tmp_path)
    names = ("RAPID_2019.de-en.xlf.gz", "news.2012.de.shuffled.deduped.gz")
    for name in names:
        (tmp_path / name).unlink()
    settings = {"ARCHIVES": str(tmp_path), "DATA_DIR": str(tmp_path / "data")}
    (shown,) = step(SCRIPT, settings, 2).stderr.splitlines()
    assert all(name in shown for name in names)


def test_a_damaged_archive_ends_the_script(tmp_path: Path) -> None:
    german(tmp_path)
    (tmp_path / "news.2012.en.shuffled.deduped.gz").write_bytes(b"damaged")
    settings = {"ARCHIVES": str(tmp_path), "DATA_DIR": str(tmp_path / "data")}
    assert "news.2012.en" in step(SCRIPT, settings, 1).stderr
    assert not (tmp_path / "data/mono.en").exists()
