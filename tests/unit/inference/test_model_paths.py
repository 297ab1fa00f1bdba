"""Functions that load models return and write the same for strings and `Path` objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import fairseq_ssl
from fairseq_ssl import analysis, checkpoints, inference
from tests.unit.inference import random_models
from tests.unit.test_path_arguments import Convert, Result, run_case

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of Hydra

LINES = "a b c\nd e\n"
TAGGER = ("edit_tagger", *random_models.SIZES, *random_models.HEADS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with models, their data and texts."""
    fairseq_ssl.register()
    folder = tmp_path_factory.mktemp("models")
    data = random_models.data_folder(folder / "data")
    for split in ("train", "valid"):
        random_models.binarized_split(data, split, "b a c\nd a\n", "u v\nw x y\n")
    for number in (1, 2):
        random_models.translation(folder / f"checkpoint{number}.pt", data, number)
    random_models.language_model(folder / "lm.pt", data, 1)
    random_models.encoding(folder / "tagger.pt", data, *TAGGER)
    (folder / "text").write_text(LINES)
    (folder / "counts").write_text("a 10\nb 10\na b 3\n")
    (folder / "nbest").write_text("0 ||| u v ||| s= 1\n0 ||| w ||| s= 2\n1 ||| x ||| s= 3\n")
    return folder


def translation_case(path: Convert) -> Result:
    """Back-translation of lines and of a file."""
    config = inference.DecodingConfig((path("checkpoint1.pt"),), path("data"), beam=2)
    summary = inference.back_translate_file(
        path("text"), path("out.gz"), config, engine="fairseq", source_output=path("source.gz")
    )
    assert summary is not None
    model, data = path("checkpoint1.pt"), path("data")
    return [
        *(config, summary.signature, summary.outputs),
        inference.load_model(model, data).translate(["a b c"]),
        inference.back_translate(["a b"], model, 2, "fairseq", data_dir=data),
    ]


def scoring_case(path: Convert) -> Result:
    """Scores of a translation model and of a language model."""
    data = path("data")
    model = inference.ScoringConfig("translation", (path("checkpoint1.pt"),), data_dir=data)
    lm = inference.ScoringConfig(
        "language-model", (path("lm.pt"),), data_dir=data, unigrams=path("data/dict.txt")
    )
    results: Result = [model, lm]
    for number, (config, source) in enumerate([(model, path("text")), (lm, None)]):
        summary = inference.score_nbest_file(
            path("nbest"), path(f"scored{number}"), config, source=source
        )
        assert summary is not None
        results += [summary.signature, summary.candidates]
    return results


def correction_case(path: Convert) -> Result:
    """Correction of lines and of a file, and tuning of an edit tagger."""
    model, data, counts = path("tagger.pt"), path("data"), path("counts")
    config = inference.CorrectionConfig((model,), data, tokenizer=None, spelling=counts)
    corrector = inference.Corrector.from_pretrained(model, data_dir=data, tokenizer=None)
    summary = inference.correct_file(path("text"), path("out"), config, lambda line: line.text)
    tuned = analysis.tune_edit_confidence(
        path("text"), path("text"), [model], data, spelling=counts, iterations=1
    )
    assert summary is not None
    return [config, corrector.correct(["a b c"]), summary.signature, tuned]


def checkpoints_case(path: Convert) -> Result:
    """Selection, average and export of checkpoints."""
    found = checkpoints.last_checkpoints(path("."), 2, "epoch")
    paths = [path("checkpoint1.pt"), path("checkpoint2.pt")]
    checkpoints.write_checkpoint(checkpoints.average(paths), path("averaged.pt"))
    state = checkpoints.read_checkpoint(path("averaged.pt"))
    signature = checkpoints.export(
        path("averaged.pt"), path("exported"), "ctranslate2", data_dir=path("data")
    )
    Path("averaged.pt").unlink()
    return [found, state, signature]


def analysis_case(path: Convert) -> Result:
    """Analyses of models, and their results as files."""
    models = {"first": [path("checkpoint1.pt")], "second": [path("checkpoint2.pt")]}
    data, text = path("data"), analysis.BleuOptions(subwords="none")
    by_length = analysis.score_by_length(models, data, [2], text=text)
    by_length.write(path("plots/lengths"))
    by_length.draw(path("lengths.png"))
    return [by_length, analysis.compare_gold_tokens(models, data, [2], [2])]


CASES = [translation_case, scoring_case, correction_case, checkpoints_case, analysis_case]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removesuffix("_case"))
@pytest.mark.slow
def test_results_and_files_are_the_same(
    case: Callable[[Convert], Result], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    assert run_case(case, str) == run_case(case, Path)
