"""The works this package brings to fairseq: what is there of each, and where.

This table feeds ``fairseq-ssl papers``, the README and the tests.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """One work, what it brings, and the names under which fairseq knows it."""

    key: str
    """Name of its folder in examples/, when there is one."""
    title: str
    brings: str
    tasks: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    criterions: tuple[str, ...] = ()

    @property
    def available(self) -> bool:
        """Whether anything of it can be used already."""
        return bool(self.tasks or self.archs or self.criterions)


PAPERS = (
    Paper(
        key="shape",
        title="SHAPE: Shifted Absolute Position Embedding for Transformers (Kiyono et al., 2021)",
        brings="positions that extrapolate to lengths never trained on",
        archs=(
            "shape_transformer",
            "shape_transformer_tiny",
            "shape_transformer_iwslt_de_en",
            "shape_transformer_wmt_en_de",
            "shape_transformer_big",
        ),
    ),
    Paper(
        key="gec_pseudo_data",
        title="Pseudo Data for Grammatical Error Correction (Kiyono et al., 2019)",
        brings="noisy back-translation, direct, spell and character noise",
    ),
    Paper(
        key="wmt20",
        title="Tohoku-AIP-NTT at WMT 2020 (Kiyono et al., 2020)",
        brings="filters, tagged back- and forward-translation, re-ranking, post-ensemble",
    ),
    Paper(
        key="poda",
        title="PoDA: Denoising based Sequence-to-Sequence Pre-training (Wang et al., 2019)",
        brings="denoising pre-training of a Transformer with a pointer-generator",
    ),
    Paper(
        key="pie",
        title="PIE: Parallel Iterative Edit Models (Awasthi et al., 2019)",
        brings="parallel edit labelling, refined in rounds",
    ),
    Paper(
        key="pseudo_bidirectional",
        title="PBD: Pseudo-Bidirectional Decoding (Zhou, Ge and Xu, 2020)",
        brings="one stack shared by encoder and decoder",
    ),
    Paper(
        key="mein",
        title="MEIN: Mixture of Expert/Imitator Networks (Kiyono et al., 2019)",
        brings="text classification from unlabelled text",
    ),
    Paper(
        key="bytenet",
        title="Semi-Supervised Neural Machine Translation for small bilingual datasets (ByteNet)",
        brings="linear-time translation trained on bilingual and monolingual text",
    ),
)


def markdown_table(papers: tuple[Paper, ...] = PAPERS) -> str:
    """Return the README's table, a row a paper."""
    rows = ["| paper | brings | use it with |", "| --- | --- | --- |"]
    rows += [f"| {paper.title} | {paper.brings} | {_use(paper)} |" for paper in papers]
    return "\n".join(rows)


def _use(paper: Paper) -> str:
    if not paper.available:
        return "planned"
    named = {"--task": paper.tasks, "--arch": paper.archs, "--criterion": paper.criterions}
    return "<br>".join(f"`{flag} {name}`" for flag, names in named.items() for name in names)
