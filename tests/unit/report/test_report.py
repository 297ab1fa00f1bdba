"""What folders hold is found, averaged, and put on a page that no text can break."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import DataError
from fairseq_ssl.metrics.metric import BootstrapResult
from fairseq_ssl.report.score_files import (
    ReportedScore,
    ScoreComparison,
    best_scores,
    collect_files,
    score_table,
)

BLEU = {"name": "BLEU", "signature": "nrefs:1|version:2"}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def runs(folder: Path) -> Path:
    """Two systems, of which one has two seeds."""
    for name, score, text in (
        ("base.1", 30.0, "a b c\nd e\n"),
        ("tagged-ft.1", 33.0, "a b\nd e\n"),
        ("tagged.1", 31.0, "a x c\nd e\n"),
        ("tagged.2", 32.0, "a y c\nd e\n"),
    ):
        write(folder / name / "test.txt", text)
        write(folder / name / "test.bleu.json", {**BLEU, "score": score})
    gleu = {"GLEU": 50.0, "deviation of samples": 0.5, "signature": "gleu|lines:2"}
    write(folder / "base.1/valid.gleu.json", gleu)
    return folder


def test_scores_are_averaged_over_seeds_in_the_order_of_systems(tmp_path: Path) -> None:
    made = score_table(collect_files([runs(tmp_path / "runs")]).scores)
    columns = [
        ("test", "BLEU", BLEU["signature"]),
        ("valid", "GLEU", "gleu|lines:2"),
        ("valid", "gleu deviation of samples", "gleu|lines:2"),
    ]
    assert made.columns == columns
    shown = {name: [one and str(one) for one in row] for name, row in made.rows.items()}
    assert shown == {
        "base": ["30.00", "50.00", "0.50"],
        "tagged": ["31.50 ± 0.71", None, None],
        "tagged-ft": ["33.00", None, None],
    }
    assert list(made.rows) == ["base", "tagged", "tagged-ft"]
    assert best_scores(made) == [33.0, 50.0, None]  # of a deviation none is best
    assert made.signatures() == [BLEU["signature"], "gleu|lines:2"]
    assert made.headings() == [column[:2] for column in columns]


def test_scores_of_several_systems_in_one_file_are_those_of_their_seeds(tmp_path: Path) -> None:
    told = {"mean": 2.0, "deviation": 1.0, "seeds": [1.0, 3.0]}
    against = {"difference": 1.0, "low": 0.5, "high": 1.5, "p": 0.01}
    content = {"systems": {"ours": {"F_0.5": told}}, "against the baseline": {"ours": against}}
    write(tmp_path / "x/dev.json", {**content, "signature": "m2"})
    write(tmp_path / "x/worth.json", {"weights": [1, 2]})
    found = collect_files([tmp_path / "x"])
    (score,) = found.scores
    assert score == ReportedScore("ours", "dev", "m2 F_0.5", (1, 3), "m2")
    difference = BootstrapResult(1.0, 0.5, 1.5, 0.01)
    assert found.comparisons == [ScoreComparison("dev: against the baseline", {"ours": difference})]
    assert found.analyses == {"x/worth.json": {"weights": [1, 2]}}


def test_systems_of_one_name_are_told_apart_by_their_folders(tmp_path: Path) -> None:
    found = collect_files([runs(tmp_path / "one"), runs(tmp_path / "two")])
    assert set(found.systems("test")) == {
        f"{folder}/{name}" for folder in ("one", "two") for name in ("base", "tagged", "tagged-ft")
    }


def test_what_is_no_json_is_told(tmp_path: Path) -> None:
    write(tmp_path / "a/test.json", "{")
    with pytest.raises(DataError, match="is not JSON"):
        collect_files([tmp_path])
    with pytest.raises(DataError, match="is not a folder"):
        collect_files([tmp_path / "b"])


def test_text_can_not_end_the_script_nor_become_tags(tmp_path: Path) -> None:
    evil = "</script><script>alert(1)</script> <!-- & $title"
    write(tmp_path / "runs/<b>x</b>.1/test.txt", f"{evil}\n")
    words = ["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html"), "--title", "<i>"]
    assert main(words) == 0
    made = (tmp_path / "r.html").read_text()
    assert "alert(1)" in made
    assert "<script>alert" not in made
    assert "<i>" not in made
    assert "<b>x" not in made
    assert made.count("</script>") == 2
    assert [side["lines"] for side in sides(made)] == [[evil]]


def test_a_page_has_tables_figures_and_analyses(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs")
    write(folder / "curve.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(folder / "worth.json", {"gain": 1.5})
    reference = write(tmp_path / "ref", "a b c\nd e\n")
    words = ["report", folder, "-o", tmp_path / "r.html", "--reference", reference]
    assert main([*map(str, words), "--baseline", "base"]) == 0
    made = (tmp_path / "r.html").read_text()
    assert "31.50 ± 0.71" in made
    assert "BLEU against base" in made
    assert "data:image/svg+xml;base64," in made
    assert "&quot;gain&quot;: 1.5" in made
    assert "http://" not in made
    assert "https://" not in made
    wanted, base, tagged, tuned = sides(made)
    assert wanted["name"] == "reference"
    assert [one["name"] for one in (base, tagged, tuned)] == ["base", "tagged", "tagged-ft"]
    assert base["scores"] == [100.0, 100.0]
    assert tagged["scores"][0] < tagged["scores"][1]


def data(made: str) -> Any:
    """Return what the script of a page reads."""
    return json.loads(made.split('id="data">')[1].split("</script>")[0])


def sides(made: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = data(made)["sides"]
    return found


def errors(made: str) -> list[list[dict[str, Any]]]:
    found: list[list[dict[str, Any]]] = data(made)["errors"]
    return found


def test_what_is_measured_is_told_unless_files_told_it(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs")
    reference = write(tmp_path / "ref", "a b c\nd e\n")
    words = list(map(str, ["report", folder, "-o", tmp_path / "r.html", "--reference", reference]))
    assert main([*words, "--metric", "accuracy"]) == 0
    made = (tmp_path / "r.html").read_text()
    assert 'data-value="100.0"><strong>100.00' in made
    assert "50.00 ± 0.00" in made  # of both seeds, each with one line that is right
    assert "accuracy against base, the best" in made
    assert main([*words, "--metric", "bleu"]) == 0
    made = (tmp_path / "r.html").read_text()
    assert made.count("<br>BLEU") == 1
    assert "BLEU against base, the best" in made
    assert main([*words, "--metric", "chrf++"]) == 0
    made = (tmp_path / "r.html").read_text()
    assert made.count("<br>chrF2++") == 1
    assert "chrF2++ against base, the best" in made


def test_outputs_are_named_on_the_command_line(tmp_path: Path) -> None:
    for name, text in (("x", "a b\n"), ("y", "a c\n"), ("z", "b c\n")):
        write(tmp_path / name, text)
    names = [f"{system}={tmp_path / name}" for system, name in ("ax", "by", "bz")]
    assert main(["report", *names, "-o", str(tmp_path / "r.html")]) == 0
    made = (tmp_path / "r.html").read_text()
    assert [(one["name"], one["lines"]) for one in sides(made)] == [("a", ["a b"]), ("b", ["a c"])]
    assert "the output of the first is shown" in made


def test_what_is_left_out_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs/a.1/x.txt", "a\n")
    write(tmp_path / "runs/a.1/y.txt", "a\n")
    write(tmp_path / "runs/curve.PDF", "")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 0
    told = capsys.readouterr().err
    assert "There are outputs of x, y. Set --test-set to one of them to show" in told
    assert "curve.PDF is left out" in told
    assert "<form" not in (tmp_path / "r.html").read_text()


M2 = """S a b c
A 0 1|||R:NOUN|||x|||REQUIRED|||-NONE-|||0
A 1 2|||M:DET|||y|||REQUIRED|||-NONE-|||1

S d e
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""


def test_an_m2_file_gives_sources_types_and_scores(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.m2", M2)
    words = ["report", runs(tmp_path / "runs"), "-o", tmp_path / "r.html", "--gold", gold]
    assert main(list(map(str, words))) == 0
    made = (tmp_path / "r.html").read_text()
    source, wanted, *_ = sides(made)
    assert source["lines"] == ["a b c", "d e"]
    assert wanted["lines"] == ["x b c", "d e"]  # the other annotator did not see all sentences
    assert errors(made) == [
        [
            {"type": "R:NOUN", "words": "a", "correction": "x", "by": []},
            {"type": "M:DET", "words": "b", "correction": "y", "by": []},
        ],
        [],
    ]
    assert "DET (1)" in made
    assert "M:DET (1)" in made
    assert '<option value="missed 1">missed by tagged</option>' in made
    assert '<option value="source" selected>' in made


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--test-set", "dev"], "--test-set is dev; expected test."),
        (["--baseline", "other"], "--baseline is other; the systems are: base, tagged, tagged-ft."),
        (["--reference", "short"], "has 2 lines and a reference 1"),
        (["--metric", "m2"], "The metric m2 needs --gold."),
        (["--gold", "empty"], "has 2 lines and the source 0"),
        (["--tokenize", "zh", "--metric", "accuracy"], "--tokenize is for bleu, not for accuracy"),
        (["--reference", "missing"], "missing does not exist"),
    ],
)
def test_a_wrong_request_is_told(
    flags: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runs(tmp_path / "runs")
    write(tmp_path / "short", "a\n")
    write(tmp_path / "empty", "")
    assert main(["report", "runs", "-o", "r.html", *flags]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "r.html").exists()


def test_a_folder_without_any_of_it_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "runs/notes.md", "nothing")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 1
    assert "no outputs, scores or figures" in capsys.readouterr().err
