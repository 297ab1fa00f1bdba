"""``fairseq-ssl score`` of edits: systems, seeds, analyses, rejected options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from tests.unit.metrics.small_pipeline import small_pipeline

GOLD = """\
S the cat sit on mat .
A 2 3|||R:VERB:SVA|||sits|||REQUIRED|||-NONE-|||0
A 4 4|||M:DET|||the|||REQUIRED|||-NONE-|||0

S a dog sat at the mat .
A 3 4|||R:PREP|||on|||REQUIRED|||-NONE-|||0

S the the cat .
A 1 2|||U:DET||||||REQUIRED|||-NONE-|||0

S a mat .
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0
"""
SOURCE = [line[2:] for line in GOLD.splitlines() if line.startswith("S ")]
RIGHT = ["the cat sits on the mat .", "a dog sat on the mat .", "the cat .", "a mat ."]


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    texts = {
        "source": SOURCE,
        "right": RIGHT,
        "first": [*RIGHT[:1], *SOURCE[1:]],
        "second": [*RIGHT[:2], SOURCE[2], "a cat ."],
        "levels": ["A", "N", "A", "N"],
        "gap": ["A", "", "A", "N"],
        "halves": ["A", "A", "N", "N"],
        "short": RIGHT[:2],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    (tmp_path / "gold.m2").write_text(GOLD, encoding="utf-8")
    (tmp_path / "bad.m2").write_text(GOLD.replace("A 3 4", "A 3 44"), encoding="utf-8")
    (tmp_path / "ours.m2").write_text(GOLD.replace("|||on|||", "|||in|||"), encoding="utf-8")
    (tmp_path / "other.m2").write_text(GOLD.replace("dog", "cat"), encoding="utf-8")
    return tmp_path


def found(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, object]:
    assert main(["score", *words, "--format", "json"]) == 0
    content: dict[str, object] = json.loads(capsys.readouterr().out)
    return content


def test_m2(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # 3 of the 4 gold edits and one other edit
    content = found(capsys, "m2", "second", "--gold", "gold.m2")
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 75))
    assert content["F_0.5"] == pytest.approx(75)
    content = found(capsys, "m2", "first", "--gold", "gold.m2", "--beta", "1", "--jobs", "2")
    assert content["F_1"] == pytest.approx(100 * 2 / 3)
    assert "|beta:1.0|annotators:1|unchanged:2|case:compared|" in str(content["signature"])
    assert main(["score", "m2", "right", "--gold", "gold.m2"]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[:3] == ["Precision\t100.00", "Recall\t100.00", "F_0.5\t100.00"]
    assert shown[3].startswith("m2|lines:4|beta:0.5|")


def test_number_of_processes_does_not_change_scores(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("second", "gold.m2"):
        path = files / name
        path.write_text((path.read_text("utf-8") + "\n" * (name == "gold.m2")) * 60, "utf-8")
    one = found(capsys, "m2", "second", "--gold", "gold.m2")
    assert one == found(capsys, "m2", "second", "--gold", "gold.m2", "--jobs", "3")


def test_errant_signature_names_a_blank_pipeline(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = found(capsys, "errant", "second", "--gold", "gold.m2", "--untyped")
    assert content["F_0.5"] == pytest.approx(75)
    assert "edits:blank pipeline, untyped|by:errant-" in str(content["signature"])
    words = ["--source", "source", "--reference", "right", "--reference", "first", "--untyped"]
    content = found(capsys, "errant", "second", *words)
    # by sentence: both annotators; the first; the second, who changes nothing; none
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 100))
    assert "annotators:2" in str(content["signature"])


def test_errant_by_type(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(small_pipeline(files))
    words = ["first", "second", "--gold", "gold.m2", "--spacy-model", model, "--by", "type"]
    content = found(capsys, "errant", *words, "--figure", "types.png")
    types = content["types"]
    assert isinstance(types, dict)
    assert list(types) == [
        "DET",
        "PREP",
        "VERB:SVA",
        "NOUN",
    ]  # categories of gold edits by frequency, then the others
    means = {kind: [each["mean"] for each in row.values()] for kind, row in types.items()}
    det = 100 * 1.25 * 0.5 / (0.25 + 0.5)
    assert means == {
        "DET": pytest.approx([det, det]),
        "PREP": [0, 100],
        "VERB:SVA": [100, 100],
        "NOUN": [None, 0],  # "first" and the gold edits have none of them
    }
    assert (files / "types.png").read_bytes()[:4] == b"\x89PNG"


def test_a_type_without_edits_has_no_score(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Its F of 100 would raise the mean over seeds."""
    (files / "noun.m2").write_text(GOLD.replace("R:PREP|||on", "R:NOUN|||in"), "utf-8")
    flags = ["--gold", "gold.m2", "--by", "type"]
    words = ["errant", "a=noun.m2", "b=gold.m2", *flags, "--figure", "types.png"]
    content: Any = found(capsys, *words)
    row = content["types"]["NOUN"]
    assert (row["a"]["mean"], row["b"]["mean"], row["b"]["seeds"]) == (0, None, [])
    assert main(["score", *words]) == 0
    assert ["NOUN", "0.00", "n/a"] in map(str.split, capsys.readouterr().out.splitlines())
    content = found(capsys, "errant", "a=noun.m2", "a=gold.m2", *flags)
    row = content["types"]["NOUN"]
    assert (row["a"]["mean"], row["a"]["precision"]) == (0, [0, None])


def test_a_figure_of_gold_without_edits(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    noop = "A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0\n"
    (files / "none.m2").write_text("".join(f"S {line}\n{noop}\n" for line in SOURCE), "utf-8")
    words = ["errant", "gold.m2", "--gold", "none.m2", "--by", "type", "--figure", "f.png"]
    assert main(["score", *words]) == 1
    assert "f.png cannot be drawn" in capsys.readouterr().err


def test_errant_by_category_equals_errant_compare(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Edits that are not gold also have rows, in operations and full types too."""
    unwanted = GOLD.replace("A 1 2|||U:DET", "A 2 3|||R:NOUN")
    (files / "theirs.m2").write_text(unwanted.replace("R:PREP|||on", "R:PREP|||in"), "utf-8")
    expected = {
        "operation": "R 1 2 1, M 1 0 0, U 0 0 1",
        "type": "DET 1 0 1, PREP 0 1 1, VERB:SVA 1 0 0, NOUN 0 1 0",
        "full-type": "M:DET 1 0 0, R:PREP 0 1 1, R:VERB:SVA 1 0 0, U:DET 0 0 1, R:NOUN 0 1 0",
    }
    for tier, rows in expected.items():
        words = ["errant", "theirs.m2", "--gold", "gold.m2", "--by", tier]
        content: Any = found(capsys, *words)[f"{tier.replace('-', ' ')}s"]
        counts = {
            kind: [*row["tp"], *row["fp"], *row["fn"]]
            for kind, by_system in content.items()
            for row in by_system.values()
        }
        shown = ", ".join(f"{kind} {' '.join(map(str, row))}" for kind, row in counts.items())
        assert shown == rows
        assert main(["score", *words]) == 0
        text = [line.split()[:4] for line in capsys.readouterr().out.splitlines()]
        assert all(row.split() in text for row in rows.split(", "))
    words = ["errant", "a=theirs.m2", "a=ours.m2", "gold.m2", "--gold", "gold.m2", "--by", "type"]
    assert main(["score", *words]) == 0
    text = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["VERB:SVA", "100.00", "±", "0.00", "100.00"] in text


def test_errant_reads_m2_hypotheses(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = found(capsys, "errant", "ours.m2", "--gold", "gold.m2")
    assert (content["Precision"], content["Recall"]) == pytest.approx((75, 75))
    assert "edits:from m2|version" in str(content["signature"])


def test_levels_and_shares(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["errant", "second", "--gold", "gold.m2", "--untyped"]
    content = found(capsys, *words, "--by", "level", "--levels", "levels")
    levels = content["levels"]
    assert isinstance(levels, dict)
    assert levels["A"]["second"]["mean"] == pytest.approx(100 * 1.25 * 2 / 3 / (0.25 + 2 / 3))
    assert levels["N"]["second"]["mean"] == pytest.approx(100 * 1.25 * 0.5 / (0.125 + 1))
    words = ["errant", "ours.m2", "--gold", "gold.m2", "--by", "share", "--levels", "halves"]
    shares = found(capsys, *words)["shares"]
    assert isinstance(shares, dict)
    assert {kind: [row["A"]["mean"], row["N"]["mean"]] for kind, row in shares.items()} == {
        "DET": [pytest.approx(100 / 3), 100],
        "PREP": [pytest.approx(100 / 3), 0],
        "VERB:SVA": [pytest.approx(100 / 3), 0],
    }
    assert main(["score", *words[:6]]) == 0
    assert "% of gold edits by shares  all\n" in capsys.readouterr().out


def test_systems_seeds_and_a_baseline(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["m2", "ours=first", "ours=second", "theirs=right", "--gold", "gold.m2"]
    content = found(capsys, *words, "--baseline", "first", "--resamples", "50")
    systems = content["systems"]
    assert isinstance(systems, dict)
    seeds = [100 * 1.25 * 0.5 / (0.25 + 0.5), 75.0]
    assert systems["ours"]["F_0.5"]["seeds"] == pytest.approx(seeds)
    assert systems["ours"]["F_0.5"]["mean"] == pytest.approx(sum(seeds) / 2)
    assert systems["theirs"]["F_0.5"]["mean"] == 100
    against = content["against the baseline"]
    assert isinstance(against, dict)
    assert against["theirs"]["difference"] == pytest.approx(100 - seeds[0])
    assert against["ours"]["difference"] == pytest.approx(sum(seeds) / 2 - seeds[0])
    assert "|resamples:50|seed:12345|" in str(content["signature"])
    assert main(["score", *words, "--baseline", "gold=right"]) == 0
    shown = capsys.readouterr().out
    assert "ours    87.50 ± 17.68  62.50 ± 17.68  79.17 ± 5.89\n" in shown
    assert "theirs  100.00         100.00         100.00\n" in shown
    assert "theirs                +0.00       +0.00 to +0.00    1.0000\n" in shown


def test_bleu_and_accuracy(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from fairseq_ssl.metrics.bleu import Bleu

    content = found(capsys, "bleu", "second", "--reference", "right", "--tokenize", "none")
    lines = (files / "second").read_text("utf-8").splitlines()
    assert content["BLEU"] == pytest.approx(Bleu([RIGHT], "none").corpus_score(lines).score)
    content = found(capsys, "accuracy", "second", "--reference", "right", "--reference", "source")
    assert content["accuracy"] == 75
    words = ["--reference", "right", "--baseline", "source", "--resamples", "20"]
    for metric in ("accuracy", "bleu", "rouge", "chrf"):
        against: Any = found(capsys, metric, "right", *words)["against the baseline"]
        assert against["right"]["difference"] > 0


def test_differences_of_gleu_are_those_of_a_named_value(
    files: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With several references, no rounds are drawn from resampled sentences."""
    texts = ["--source", "source", "--reference", "right", "--reference", "second"]
    content: Any = found(
        capsys, "gleu", "right", *texts, "--baseline", "source", "--resamples", "9"
    )
    name = "mean of single references"
    assert content["compared"] == name
    baseline: Any = found(capsys, "gleu", "source", *texts)[name]
    difference = content["against the baseline"]["right"]["difference"]
    assert difference == pytest.approx(content[name] - baseline)


def test_chrf_is_that_of_sacrebleu(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sacrebleu.metrics.chrf import CHRF

    lines = (files / "second").read_text("utf-8").splitlines()
    for kind, headline, order in (("chrf", "chrF2", 0), ("chrf++", "chrF2++", 2)):
        expected = CHRF(word_order=order).corpus_score(lines, [RIGHT, SOURCE])
        words = ("second", "--reference", "right", "--reference", "source")
        content = found(capsys, "chrf", *words, "--word-order", str(order))
        assert content[headline] == expected.score
        signature = f"{kind}|lines:4|references:2|case:mixed|eff:yes|nc:6|nw:{order}|"
        assert str(content["signature"]).startswith(signature)
