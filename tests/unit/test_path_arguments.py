"""Functions of the text tools return and write the same for strings and `Path` objects."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fairseq_ssl import edits, filters, metrics, noise, report, rerank, text
from fairseq_ssl.learned_filter import (
    FeatureExtractor,
    PairFilter,
    keep_best,
    score_pairs,
    train_filter,
)
from fairseq_ssl.metrics import Accuracy, Errant
from fairseq_ssl.noise.confusion_sets import build_confusion_sets_file
from fairseq_ssl.noise.learner_errors import count_learner_errors_file
from fairseq_ssl.text.m2 import m2_to_text, merge_m2
from fairseq_ssl.text.spelling import SpellingCounts, count_spelling_file, spelling_corrector
from fairseq_ssl.text.subwords.model import train_subwords

Convert = Callable[[str], Any]
"""`str` or `Path`."""
Result = list[Any]

SOURCE = ["he go home", "a cat sit on the mat", "it is a small test", "we saw the the dog"]
TARGET = ["he goes home", "a cat sits on the mat", "it is a small test", "we saw the dog"]
M2 = "S he go home\nA 1 2|||R:VERB:SVA|||goes|||REQUIRED|||-NONE-|||0\n\n"


def write_inputs() -> None:
    """Write the input files to the current folder. They have a fixed time, for fingerprints."""
    draw = np.random.default_rng(1)
    pairs = [draw.integers(0, 9, 5) for _ in range(30)]
    files = {
        "source.txt": "".join(f"{line}\n" for line in SOURCE),
        "target.txt": "".join(f"{line}\n" for line in TARGET),
        "filters.yaml": "filters:\n  - clean: {max: 4}\n",
        "dict.txt": "a 3\ncat 2\nmat 1\n",
        "sets.txt": "cat\tcut mat\nhome\thole\n",
        "weights.json": '{"weights": {"s": 0.5, "t": 1}}',
        "nbest.txt": "0 ||| a cat ||| s= -1 t= -4\n0 ||| cat ||| s= -2 t= -1\n",
        "words.vec": "2 2\na 1 0\ncat 0 1\n",
        "suffixes.txt": "go\tgoes\n",
        "gold.m2": M2,
        "one.txt": "he goes home\n",
        **{
            f"pairs.{side}": "".join(" ".join(f"{side}{n}" for n in row) + "\n" for row in pairs)
            for side in "st"
        },
        **{
            f"{side}.vec": "9 4\n"
            + "".join(f"{side}{n} {' '.join(map(str, draw.normal(size=4)))}\n" for n in range(9))
            for side in "st"
        },
    }
    Path("run.1").mkdir()
    for name, content in {**files, "run.1/test.txt": "he goes home\n"}.items():
        Path(name).write_text(content)
        os.utime(name, (0, 0))


def noise_case(path: Convert) -> Result:
    """Noise with all resources."""
    resources = noise.NoiseResources(counts=path("dict.txt"), confusion_sets=path("sets.txt"))
    clean, changed = path("clean.gz"), path("changed.txt")
    summary = noise.noise_file(
        path("source.txt"),
        path("noisy.gz"),
        "direct,spell",
        clean=clean,
        changed_positions=changed,
        resources=resources,
    )
    assert summary is not None
    assert summary.outputs == (Path("noisy.gz"), Path("clean.gz"), Path("changed.txt"))
    counted = noise.count_learner_errors(list(zip(SOURCE, TARGET, strict=True)))
    counted.write(path("learner.json"), summary.signature)
    learner = noise.NoiseResources(learner_errors=path("learner.json"), counts=path("dict.txt"))
    return [
        summary,
        noise.read_confusion_sets(path("sets.txt")),
        noise.LearnerErrors.read(path("learner.json")),
        noise.add_noise(TARGET, "learner", resources=learner),
        noise.add_noise(TARGET, "spell", resources=resources),
        resources.fingerprints(),
        build_confusion_sets_file([path("target.txt")], path("built.txt")),
        count_learner_errors_file(
            path("source.txt"), path("target.txt"), path("errors.json"), min_count=1
        ),
    ]


def filters_case(path: Convert) -> Result:
    """Filters of a YAML file, on a file."""
    chain = filters.read_filters(path("filters.yaml"))
    return [chain, filters.filter_files([path("source.txt")], [path("kept.txt")], chain)]


def edits_case(path: Convert) -> Result:
    """All functions of files of edits."""
    source, target = path("source.txt"), path("target.txt")
    summary = edits.build_dictionary_file(
        source,
        target,
        path("edits.txt"),
        transforms=path("suffixes.txt"),
        label_dict=path("labels.dict"),
    )
    dictionary = edits.EditDictionary.read(path("edits.txt"))
    dictionary.write(path("copy.txt"))
    dictionary.write_for_fairseq(path("copy.dict"))
    built = edits.build_dictionary(
        zip(SOURCE, TARGET, strict=True), transforms=path("suffixes.txt")
    )
    labeled = edits.label_file(source, target, path("labels.txt"), path("edits.txt"))
    applied = edits.apply_file(source, path("labels.txt"), path("applied.txt"), path("edits.txt"))
    coverage = edits.measure_coverage(source, target, path("edits.txt"))
    return [
        *(summary.signature, dictionary.text(), built.text(), labeled.signature),
        *(labeled.coverage.report(), applied.signature, coverage.signature),
    ]


def metrics_case(path: Convert) -> Result:
    """Metrics of files."""
    errant = Errant(path("gold.m2"), untyped=True)
    systems = {"ours": [path("source.txt")]}
    scores = metrics.score_systems(Accuracy([TARGET]), systems, [path("target.txt")], resamples=9)
    return [
        scores.values(),
        scores.comparisons,
        metrics.M2(path("gold.m2")).corpus_score(["he goes home"]),
        errant.typed_counts_of_file(path("gold.m2")),
    ]


def rerank_case(path: Convert) -> Result:
    """N-best lists, weights, and a post-ensemble."""
    nbest = rerank.NBest.read(path("nbest.txt"))
    weights = rerank.read_weights(path("weights.json"))
    chosen = rerank.post_ensemble([["a"], ["a cat"]], path("words.vec"))
    return [rerank.apply(nbest, weights), nbest.name, weights, chosen]


def report_case(path: Convert) -> Result:
    """Reports of a folder and of a file, with references and with gold edits."""
    files = report.collect_files([path("run.1")])
    assert files.outputs == {("run", "test"): [Path("run.1/test.txt")]}
    comparison = report.Comparison(
        source=path("one.txt"), references=[path("one.txt")], metric="gleu"
    )
    systems = {"ours": [path("one.txt")]}
    gold = report.Comparison(gold=path("gold.m2"))
    folders = [path("run.1")]
    return [
        files,
        comparison,
        report.write_report(path("a.html"), folders, systems, comparison=comparison),
        report.write_report(path("b.html"), folders, systems, comparison=gold),
    ]


def text_case(path: Convert) -> Result:
    """Readers and models of text."""
    counter = text.CaseCounts()
    for line in TARGET:
        counter.add(line)
    train_subwords(TARGET, Path("bpe"), 20, "subword-nmt")
    counted = count_spelling_file([path("target.txt")], path("spelling.txt"))
    SpellingCounts.read(path("spelling.txt")).write(path("copied.txt"))
    return [
        *(counter.write(path("case.model")), counted),
        text.truecaser(path("case.model"))("The Cat"),
        text.subword_encoder(path("bpe"))("the cat"),
        text.read_counts(path("dict.txt")),
        list(text.read_m2(path("gold.m2"))),
        list(merge_m2([path("gold.m2"), path("gold.m2")])),
        list(m2_to_text(path("gold.m2"), path("m2.source"), path("m2.target"), None)),
        spelling_corrector(path("spelling.txt"))(["catt"]),
    ]


def learned_filter_case(path: Convert) -> Result:
    """Training and application of a learned filter."""
    pairs = path("pairs.s"), path("pairs.t")
    features = FeatureExtractor(vectors=(path("s.vec"), path("t.vec")))
    trained = train_filter(pairs, pairs, path("filter"), features)
    for file in Path("filter").iterdir():
        os.utime(file, (0, 0))
    pair_filter = PairFilter.read(path("filter"), {})
    scored = score_pairs(path("filter"), pairs, path("scores.txt"))
    kept = keep_best(pairs, path("scores.txt"), (path("kept.s"), path("kept.t")), 50)
    Path("copy").mkdir()
    pair_filter.write(path("copy"), {})
    return [trained, scored, kept, features, pair_filter.features]


CASES = [
    *(noise_case, filters_case, edits_case, metrics_case, rerank_case, report_case, text_case),
    learned_filter_case,
]


def run_case(case: Callable[[Convert], Result], path: Convert) -> tuple[str, dict[str, bytes]]:
    """Return the result of a case, and the files that it writes. Delete these files."""
    before = set(Path().rglob("*"))
    result = repr(case(path))
    new = sorted(set(Path().rglob("*")) - before, reverse=True)
    content = {str(file): file.read_bytes() for file in new if file.is_file()}
    for file in new:
        file.unlink() if file.is_file() else file.rmdir()
    return result, content


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__.removesuffix("_case"))
def test_results_and_files_are_the_same(
    case: Callable[[Convert], Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_inputs()
    expected = run_case(case, Path)
    assert run_case(case, str) == expected
    assert run_case(case, lambda name: f"./{name}") == expected
