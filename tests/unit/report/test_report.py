"""Collection of files, averaging of scores, and the content of the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from fairseq_ssl.cli.main import main
from fairseq_ssl.errors import UsageError
from fairseq_ssl.metrics import Accuracy
from fairseq_ssl.metrics.metric import BootstrapResult, SentenceStatistics
from fairseq_ssl.report import Comparison, builder, interval_plot, write_report
from fairseq_ssl.report.page import best_scores, score_table
from fairseq_ssl.report.score_files import ReportedScore, ScoreComparison, collect_files

BLEU = {"name": "BLEU", "signature": "nrefs:1|version:2"}


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def runs(folder: Path) -> Path:
    """Write outputs and scores of three systems, one of them with two seeds."""
    for name, score, text in (
        *(("base.1", 30.0, "a b c"), ("tagged-ft.1", 33.0, "a b")),
        *(("tagged.1", 31.0, "a x c"), ("tagged.2", 32.0, "a y c")),
    ):
        write(folder / name / "test.txt", f"{text}\nd e\n")
        write(folder / name / "test.bleu.json", {**BLEU, "score": score})
    gleu = {"GLEU": 50.0, "standard deviation of samples": 0.5, "signature": "gleu|lines:2"}
    write(folder / "base.1/valid.gleu.json", gleu)
    return folder


def test_scores_are_averaged_over_seeds(tmp_path: Path) -> None:
    table = score_table(collect_files([runs(tmp_path / "runs")]).scores)
    columns = [
        ("test", "BLEU", BLEU["signature"]),
        ("valid", "GLEU", "gleu|lines:2"),
        ("valid", "gleu standard deviation of samples", "gleu|lines:2"),
    ]
    assert table.columns == columns
    rows = {name: [scores and str(scores) for scores in row] for name, row in table.rows.items()}
    assert rows == {
        "base": ["30.00", "50.00", "0.50"],
        "tagged": ["31.50 ± 0.71", None, None],
        "tagged-ft": ["33.00", None, None],
    }
    assert list(table.rows) == ["base", "tagged", "tagged-ft"]
    assert best_scores(table) == [33.0, 50.0, None]  # no direction for a standard deviation
    assert table.signatures() == [BLEU["signature"], "gleu|lines:2"]
    assert table.headings() == [column[:2] for column in columns]


def test_score_file_of_several_systems(tmp_path: Path) -> None:
    scores = {"mean": 2.0, "deviation": 1.0, "seeds": [1.0, 3.0]}
    against = {"difference": 1.0, "low": 0.5, "high": 1.5, "p": 0.01}
    content = {"systems": {"ours": {"F_0.5": scores}}, "against the baseline": {"ours": against}}
    write(tmp_path / "x/dev.json", {**content, "signature": "m2"})
    write(tmp_path / "x/worth.json", {"weights": [1, 2]})
    files = collect_files([tmp_path / "x"])
    (score,) = files.scores
    expected = ReportedScore("ours", "dev", "m2 F_0.5", (1, 3), "m2")
    assert score == expected
    difference = BootstrapResult(1.0, 0.5, 1.5, 0.01)
    assert files.comparisons == [ScoreComparison("dev: against the baseline", {"ours": difference})]
    assert files.analyses == {"x/worth.json": {"weights": [1, 2]}}


def test_folders_of_the_same_name_get_their_parents(tmp_path: Path) -> None:
    folders = [runs(tmp_path / "small/runs"), runs(tmp_path / "big/runs")]
    for folder in folders:
        types = {"NOUN": {"a": {"seeds": [1]}}}
        write(folder / "types.json", {"types": types, "signature": "m2"})
        write(folder / "figure.svg", "<svg/>")
    files = collect_files(folders)
    assert len(files.systems("test")) == 6
    assert files.systems("test")["big/runs/base"] == [folders[1] / "base.1/test.txt"]
    assert list(files.figures) == ["small/runs/figure", "big/runs/figure"]
    assert list(files.breakdowns) == ["small/runs/types: by type", "big/runs/types: by type"]
    with pytest.raises(UsageError, match="passed twice"):
        collect_files([folders[0], tmp_path / "big/../small/runs"])


def test_interval_plot_has_round_ticks_and_colors_significant_differences() -> None:
    results = {
        "up": BootstrapResult(40.0, 30.0, 60.0, 0.001),
        "same": BootstrapResult(0, -20, 5, 1),
    }
    plot = interval_plot(results)
    ticks = [
        (f"{25 * index}.00", tick)
        for index, tick in enumerate(["\N{MINUS SIGN}20", "0", "+20", "+40"])
    ]
    assert re.findall(r'<span style="left:(.*?)%">(.*?)</span>', plot)[:4] == ticks
    up, same = re.findall(r'<div class="interval (.*?)">', plot)
    assert (up, same) == ("better", "no significant difference")
    assert 'class="dot" style="left:75.00%"' in plot
    assert 'style="left:62.50%;width:37.50%"' in plot
    (worse, _) = re.findall(
        '<div class="interval (.*?)">', interval_plot(results, lower_is_better=True)
    )
    assert worse == "worse"


@pytest.mark.parametrize(
    ("high", "ticks"), [(0.0, ["0"]), (0.01, ["0", "+0.002"]), (9.9, ["0", "+2"]), (1e6, ["0"])]
)
def test_ticks_of_an_interval_plot_fit_its_range(high: float, ticks: list[str]) -> None:
    plot = interval_plot({"a": BootstrapResult(high / 2, 0.0, high, 0.5)})
    shown = re.findall(r"<span [^>]*>(.*?)</span>", plot)
    assert shown[: len(ticks)] == ticks
    assert len(shown) <= 6


def test_page_has_tables_figures_and_analyses(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs")
    write(folder / "curve.svg", "<svg xmlns='http://www.w3.org/2000/svg'/>")
    write(folder / "worth.json", {"gain": 1.5})
    reference = write(tmp_path / "ref", "a b c\nd e\n")
    words = ["report", folder, "-o", tmp_path / "r.html", "--reference", reference]
    assert main([*map(str, words), "--baseline", "base"]) == 0
    page = (tmp_path / "r.html").read_text()
    assert "31.50 ± 0.71" in page
    assert "BLEU against base" in page
    assert page.index('class="plot"') < page.index("Table of test: BLEU against base")
    assert "data:image/svg+xml;base64," in page[: page.index("<table")], "figures come first"
    assert "&quot;gain&quot;: 1.5" in page
    assert "http://" not in page
    assert "https://" not in page
    reference_side, base, tagged, tuned = sides(page)
    assert reference_side["name"] == "reference"
    assert [side["name"] for side in (base, tagged, tuned)] == ["base", "tagged", "tagged-ft"]
    assert base["scores"] == [100.0, 100.0]
    assert tagged["scores"][0] < tagged["scores"][1]


def data(page: str) -> Any:
    """Return the JSON data of a page."""
    return json.loads(page.split('id="data">')[1].split("</script>")[0])


def sides(page: str) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = data(page)["sides"]
    return content


def test_computed_scores_are_added_unless_score_files_have_them(tmp_path: Path) -> None:
    folder = runs(tmp_path / "runs")
    reference = write(tmp_path / "ref", "a b c\nd e\n")
    words = list(map(str, ["report", folder, "-o", tmp_path / "r.html", "--reference", reference]))
    page = ""
    for metric, name in (("bleu", "BLEU"), ("chrf++", "chrF2++"), ("accuracy", "accuracy")):
        assert main([*words, "--metric", metric]) == 0
        page = (tmp_path / "r.html").read_text()
        assert page.count(f"<br>{name}") == 1
        assert f"{name} against base (best system)" in page
    assert 'data-value="100.0"><strong>100.00' in page
    assert "50.00 ± 0.00" in page  # two seeds, each with one correct line of two


def test_outputs_can_be_passed_by_system(tmp_path: Path) -> None:
    for name, text in (("x", "a b\n"), ("y", "a c\n"), ("z", "b c\n")):
        write(tmp_path / name, text)
    names = [f"{system}={tmp_path / name}" for system, name in ("ax", "by", "bz")]
    assert main(["report", *names, "-o", str(tmp_path / "r.html")]) == 0
    page = (tmp_path / "r.html").read_text()
    assert [(one["name"], one["lines"]) for one in sides(page)] == [("a", ["a b"]), ("b", ["a c"])]
    assert "the output of the first seed is shown" in page


def test_names_that_are_not_utf8_are_shown(tmp_path: Path) -> None:
    write(tmp_path / "runs/caf\udce9.svg", "<svg/>")
    output = write(tmp_path / "out", "a b\n")
    given = [tmp_path / "runs", f"caf\udce9={output}", f"caf\udcc3\udca9={output}"]
    assert main(["report", *map(str, given), "-o", f"{tmp_path}/r.html"]) == 0
    page = (tmp_path / "r.html").read_text("utf-8")
    assert "Figure runs/caf\\udce9" in page
    assert [side["name"] for side in sides(page)][-2:] == ["caf\\udce9", "café"]


def test_skipped_files_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "runs/a.1/x.txt", "a\n")
    write(tmp_path / "runs/a.1/y.txt", "a\n")
    write(tmp_path / "runs/curve.PDF", "")
    assert main(["report", str(tmp_path / "runs"), "-o", str(tmp_path / "r.html")]) == 0
    warnings = capsys.readouterr().err
    assert "outputs for the test sets x, y. Set --test-set to one of them to show" in warnings
    assert "curve.PDF is skipped" in warnings
    assert "<form" not in (tmp_path / "r.html").read_text()


M2 = """S a b c
A 0 1|||R:NOUN|||x|||REQUIRED|||-NONE-|||0
A 1 2|||M:DET|||y|||REQUIRED|||-NONE-|||1

S d e
A -1 -1|||noop|||-NONE-|||REQUIRED|||-NONE-|||0

"""


def test_m2_file_provides_sources_error_types_and_scores(tmp_path: Path) -> None:
    gold = write(tmp_path / "gold.m2", M2)
    words = ["report", runs(tmp_path / "runs"), "-o", tmp_path / "r.html", "--gold", gold]
    assert main(list(map(str, words))) == 0
    page = (tmp_path / "r.html").read_text()
    source, reference, *_ = sides(page)
    assert source["lines"] == ["a b c", "d e"]
    assert reference["lines"] == ["x b c", "d e"]  # annotator 1 skipped a sentence
    assert [error["type"] for error in data(page)["errors"][0]] == ["R:NOUN", "M:DET"]
    assert data(page)["errors"][1] == []
    assert "test: gold errors corrected, % by type (first seed)<" in page
    assert '<option value="missed 1">missed by tagged</option>' in page
    one_seed = {"tagged": [tmp_path / "runs/tagged.1/test.txt"]}
    write_report(tmp_path / "r.html", systems=one_seed, comparison=Comparison(gold=gold))
    assert ">gold errors corrected, % by type<" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("words", "culprit"),
    [
        ("runs --test-set dev", "--test-set"),
        ("runs --baseline other", "base, tagged, tagged-ft"),
        ("runs --reference short", "reference has 1"),
        ("empty", "empty"),
        ("runs -o runs/base.1/test.txt", "runs/base.1/test.txt"),
        ("runs --source short -o ./short", "short"),
    ],
)
def test_a_wrong_input_is_named_and_kept(
    words: str,
    culprit: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    runs(tmp_path / "runs")
    write(tmp_path / "short", "a\n")
    write(tmp_path / "empty/notes.md", "nothing")
    texts = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert main(["report", "-o", "r.html", *words.split()]) != 0
    assert culprit in capsys.readouterr().err
    assert all(path.read_bytes() == text for path, text in texts.items())
    assert not (tmp_path / "r.html").exists()


class ErrorRate(Accuracy):
    name = "error rate"

    def values(self, rows: SentenceStatistics) -> dict[str, float]:
        return {self.name: 100 - super().values(rows)[self.name]}


def test_the_best_system_has_the_lowest_error_rate(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(builder.METRICS, "errors", lambda texts, _: ErrorRate(texts.references))
    reference = write(tmp_path / "reference", "a\nb\n" * 50)
    systems = {"good": [reference], "bad": [write(tmp_path / "bad", "a\nx\n" * 50)]}
    comparison = Comparison(references=[reference], metric="errors")
    write_report(tmp_path / "r.html", systems=systems, comparison=comparison)
    page = (tmp_path / "r.html").read_text()
    assert "against good (best system)" in page
    assert 'class="interval worse"' in page
