"""``fairseq-ssl rerank features``: scores, parallelism, resuming, wrong input."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.inference import language_models, nbest_scores, translation_scorer
from fairseq_ssl.inference.scoring import LANGUAGE_MODEL, TRANSLATION, ScoringConfig
from fairseq_ssl.rerank.nbest import parse_nbest
from fairseq_ssl.text.subwords import model
from tests.cli.killing import kill
from tests.cli.rewriting import given, refused, shown
from tests.unit.inference import random_models
from tests.unit.inference.random_models import SOURCE_WORDS, TARGET_WORDS

SENTENCES = 60


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    data = random_models.data_folder(folder / "data")
    random_models.translation(folder / "t.pt", data, 1)
    random_models.translation(folder / "back.pt", data, 3, reverse=True)
    random_models.language_model(folder / "l.pt", data, 1)
    random_models.masked_model(folder / "m.pt", data, 1)
    return folder


@pytest.fixture
def here(models: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Change to a new folder with models, an n-best list (n = 3), and the source.

    Lists are divided into small blocks.
    """
    monkeypatch.setattr(nbest_scores, "BLOCK_KIB", 1)
    for path in models.iterdir():
        (tmp_path / path.name).symlink_to(path)
    lines, sources = [], []
    for number in range(SENTENCES):
        sources.append(" ".join(SOURCE_WORDS[(number + k * k) % 7] for k in range(number % 6 + 1)))
        for place in range(3):
            words = [
                TARGET_WORDS[(number * place + k) % 6] for k in range((number + place) % 8 + 1)
            ]
            lines.append(f"{number} ||| {' '.join(words)} ||| l2r= {-place} ||| 0 ||| from= l2r")
    (tmp_path / "list").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "source").write_text("\n".join(sources) + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SMALL_BLOCKS = "from fairseq_ssl.inference import nbest_scores; nbest_scores.BLOCK_KIB = 1; "
TRANSLATED = ("--translation", "t.pt", "--source", "source")
FEATURES = (
    *("rerank", "features", "list", "--jobs", "1"),
    *("--data-dir", "data"),
)


def made_by(*flags: str, name: str = "made") -> bytes:
    """Run the command in this process and return its output."""
    assert main([*FEATURES, "-o", name, "--force", *flags]) == 0
    return Path(name).read_bytes()


def test_unknown_words_in_the_last_block_are_no_error(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size of blocks does not decide if a list is scored."""
    lines: list[str] = []
    while len("".join(lines)) < 1024:
        lines.append(f"{len(lines)} ||| u v w x ||| l2r= -1 ||| 0\n")
    lines.append(f"{len(lines)} ||| new words only ||| l2r= -1 ||| 0\n")
    Path("list").write_text("".join(lines))
    Path("source").write_text("a b c\n" * len(lines))
    made = made_by(*TRANSLATED)
    with monkeypatch.context() as patch:
        patch.setattr(nbest_scores, "BLOCK_KIB", 64)
        one_block = made_by(*TRANSLATED)
    scores = [list(map(float, re.findall(rb"= (-[\d.]+)", text))) for text in (made, one_block)]
    assert scores[0] == pytest.approx(scores[1], rel=1e-5)
    Path("list").write_text("".join(lines).replace("u v w x", "no known word here"))
    assert main([*FEATURES, "-o", "none", *TRANSLATED]) == 1


def test_each_candidate_gets_its_scores(here: Path) -> None:
    made = made_by(*TRANSLATED).decode()
    groups = list(parse_nbest(made.splitlines(), "made"))
    sources = Path("source").read_text().splitlines()
    pairs = [
        (sources[group.index].split(), one.text.split())
        for group in groups
        for one in group.candidates
    ]
    expected = translation_scorer.TranslationScorer(
        ScoringConfig(TRANSLATION, (here / "t.pt",), "s2t", here / "data"), 0
    )
    found = [one.scores["s2t"] for group in groups for one in group.candidates]
    assert found == pytest.approx([row[0] for row in expected.score(pairs).values], abs=1e-5)
    assert re.sub(r" s2t= \S+", "", made) == Path("list").read_text()
    signature = json.loads(Path("made.json").read_text())
    assert (signature["candidates"], signature["name"]) == (3 * SENTENCES, "s2t")


def test_scores_of_several_models_are_merged(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_by("--translation", "back.pt", "--source", "source", "--reverse", name="t2s")
    made_by(*TRANSLATED, "--right-to-left", name="r2l")
    made_by("--language-model", "l.pt", "--name", "left", name="lm")
    made_by("--masked-model", "m.pt", "--fp16", name="mlm.gz")
    assert "mlm and mlm-penlp: 180 candidates" in capsys.readouterr().err
    whole = shown(capsys, "rerank", "merge", "t2s", "r2l", "lm", "mlm.gz")
    names = "l2r", "t2s", "s2t-r2l", "left", "left-slor", "mlm", "mlm-penlp"
    for group in parse_nbest(whole.splitlines(), "merged"):
        assert all(tuple(one.scores) == names for one in group.candidates)
        assert all(one.sources == ("l2r",) for one in group.candidates)
    texts = re.findall(r"^\d+ \|\|\| (.*?) \|\|\|", whole, re.M)
    scorer = language_models.LanguageModelScorer(
        ScoringConfig(LANGUAGE_MODEL, (here / "l.pt",), "left", here / "data"), 0
    )
    values = scorer.score([([], text.split()) for text in texts]).values
    slor = [float(number) for number in re.findall(r"left-slor= (\S+)", whole)]
    assert slor == pytest.approx([row[1] for row in values], abs=1e-5)


def test_a_source_with_more_lines_is_a_warning(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_by(*TRANSLATED)
    assert "source has" not in capsys.readouterr().err
    with Path("source").open("a") as file:
        file.write("a\n")
    made_by(*TRANSLATED)
    assert "source has 61 lines" in capsys.readouterr().err
    for shard in ("1/2", "2/2"):
        assert "source has" not in capsys.readouterr().err
        words = (*TRANSLATED, "--part-size", "1K", "--shard", shard)
        assert main([*FEATURES, "-o", "parts/", *words]) == 0
    assert "source has 61 lines" in capsys.readouterr().err


@pytest.mark.parametrize("count", [30, 60])
def test_unknown_words_of_many_parts_are_an_error(
    count: int, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (f"{n} ||| no known word here ||| l2r= -1 ||| 0\n" for n in range(count))
    Path("list").write_text("".join(lines))
    words = (*TRANSLATED, "--part-size", "1K")
    assert main([*FEATURES, "-o", "parts/", *words]) == 1
    assert "are not in the model's dictionary" in capsys.readouterr().err
    assert not Path("parts/manifest.json").exists()


def test_text_is_tokenized_for_each_model(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = made_by(*TRANSLATED)
    Path("source").write_text(Path("source").read_text().replace(" ", ""))
    Path("list").write_text(_joined(Path("list").read_text()))
    seen = []

    def letters(path: Path) -> object:
        seen.append(path.name)
        return lambda line: " ".join(line)

    model._cached_encoder.cache_clear()
    monkeypatch.setattr(model, "subword_encoder", letters)
    for name in ("bpe.src", "bpe.trg.model"):
        Path(name).touch()
    found = made_by(*TRANSLATED, "--subwords", "bpe.src", "bpe.trg")
    scores, expected = (
        [float(score) for score in re.findall(r"s2t= (\S+)", text.decode())]
        for text in (found, whole)
    )
    assert scores == pytest.approx(expected, rel=1e-5), "the batches differ in their lengths"
    model._cached_encoder.cache_clear()
    assert sorted(seen) == ["bpe.src", "bpe.trg.model"], "a file and a prefix"
    assert found.startswith(b"0 ||| u ||| l2r=")


def _joined(text: str) -> str:
    """Join the words of the candidates only."""
    lines = []
    for line in text.splitlines():
        fields = line.split(" ||| ")
        lines.append(" ||| ".join([fields[0], fields[1].replace(" ", ""), *fields[2:]]))
    return "\n".join(lines) + "\n"


@pytest.mark.slow
def test_processes_stdin_and_compressed_lists_do_not_change_scores(
    here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ("--language-model", "l.pt")
    whole = made_by(*flags)
    assert made_by(*flags, "--jobs", "2") == whole
    assert gzip.decompress(made_by(*flags, name="made.gz")) == whole
    given(monkeypatch, Path("list").read_bytes())
    words = ["rerank", "features", "-", "--jobs", "1", *flags]
    assert shown(capsys, *words, "--data-dir", "data").encode() == whole


def test_killed_run_resumes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = Path("list").read_text()
    Path("list").write_text(text + _later(text, 20))
    Path("source").write_text(Path("source").read_text() * 21)
    words = [*FEATURES, *TRANSLATED, "-o"]
    kill([*words, "killed"], "killed", SMALL_BLOCKS)
    assert not Path("killed").exists()
    assert main([*words, "killed"]) == 0
    assert "resuming after line" in capsys.readouterr().err
    assert Path("killed").read_bytes() == made_by(*TRANSLATED)
    assert main([*words, "killed"]) == 0
    assert "killed is complete" in capsys.readouterr().err


def _later(text: str, times: int) -> str:
    """Return the same candidates with larger sentence ids."""
    made = []
    for again in range(1, times + 1):
        for line in text.splitlines():
            number, bar, rest = line.partition(" |||")
            made.append(f"{int(number) + SENTENCES * again}{bar}{rest}")
    return "\n".join(made) + "\n"


@pytest.mark.parametrize(
    ("flags", "code", "culprit"),
    [
        ((*TRANSLATED, "--name", "l2r"), 1, "list:1"),
        (("--language-model", "l.pt", "--subwords", "a", "b"), 2, "--subwords"),
        (("--language-model", "t.pt"), 2, "t.pt"),
        (("--language-model", "nothing.pt"), 1, "nothing.pt"),
        (("--translation", "t.pt", "--source", "short"), 1, "list:4"),
        (("--translation", "t.pt", "--source", "list"), 1, "dictionary"),
    ],
)
def test_a_wrong_input_is_named(
    here: Path,
    flags: tuple[str, ...],
    code: int,
    culprit: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    Path("short").write_text("a b\n")
    assert culprit in refused(capsys, code, *FEATURES, "-o", "made", *flags)
    assert not list(here.glob("made*"))
