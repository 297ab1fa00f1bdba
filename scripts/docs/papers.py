"""The papers that the package implements, with the names registered for each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper: its contribution and the names registered for it."""

    key: str
    """Name of the folder of the paper in examples/."""
    title: str
    brings: str
    tasks: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    criterions: tuple[str, ...] = ()
    optimizers: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    """Commands for the paper, as arguments of ``fairseq-ssl``."""

    @property
    def pages(self) -> tuple[str, str]:
        """Paths of the recipe's manual and of its results in the repository."""
        return f"examples/{self.key}/README.md", f"examples/{self.key}/RESULTS.md"

    @property
    def registered(self) -> tuple[str, ...]:
        """Names of the tasks, architectures, criterions and optimizers of the paper."""
        return (*self.tasks, *self.archs, *self.criterions, *self.optimizers)

    @property
    def uses(self) -> list[str]:
        """Flags and commands for the paper, such as ``--task edit_labeling``."""
        named = {"--task": self.tasks, "--arch": self.archs, "--criterion": self.criterions}
        named["--optimizer"] = self.optimizers
        named["fairseq-ssl"] = self.commands
        return [f"{word} {name}" for word, names in named.items() for name in names]


PAPERS = (
    Paper(
        key="shape",
        title="SHAPE: Shifted Absolute Position Embedding for Transformers (Kiyono et al., 2021)",
        brings="shifted, absolute and relative position embeddings",
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
        brings="noisy back-translation; direct, spell and character noise; right-to-left models",
        tasks=("tagged_translation",),
        commands=(
            *("noise --method direct", "noise --method confusion", "noise --method characters"),
            *("back-translate --noisy-beam-beta", "score errant --by type"),
        ),
    ),
    Paper(
        key="wmt20",
        title="Tohoku-AIP-NTT at WMT 2020 (Kiyono et al., 2020)",
        brings="filters, tagged back- and forward-translation, re-ranking, post-ensemble",
        tasks=("tagged_translation",),
        commands=(
            "noise --method negatives",
            "filter",
            "learned-filter",
            "back-translate",
            "postprocess",
            "rerank",
        ),
    ),
    Paper(
        key="poda",
        title="PoDA: Denoising based Sequence-to-Sequence Pre-training (Wang et al., 2019)",
        brings="denoising pre-training of a Transformer with a pointer-generator",
        tasks=("denoising_pretraining", "copying_translation"),
        archs=("pointer_transformer", "pointer_transformer_tiny"),
        criterions=("denoising_cross_entropy",),
        commands=("noise --method shuffle",),
    ),
    Paper(
        key="pie",
        title="PIE: Parallel Iterative Edit Models (Awasthi et al., 2019)",
        brings="parallel edit labeling, applied iteratively",
        tasks=("edit_labeling",),
        archs=("edit_tagger", "edit_tagger_base", "edit_tagger_large", "edit_tagger_small"),
        criterions=("edit_cross_entropy",),
        optimizers=("bert_adam",),
        commands=("edits", "noise --method learner", "learner-errors"),
    ),
    Paper(
        key="pseudo_bidirectional",
        title="PBD: Pseudo-Bidirectional Decoding (Zhou, Ge and Xu, 2020)",
        brings="a decoder with the source as pseudo future; the encoder shares its layers",
        tasks=("local_transduction",),
        archs=(
            "pseudo_bidirectional_transformer",
            "pseudo_bidirectional_transformer_big",
            "pseudo_bidirectional_transformer_big_12",
            "pseudo_bidirectional_transformer_small",
            "pseudo_bidirectional_transformer_small_4",
        ),
    ),
    Paper(
        key="mein",
        title="MEIN: Mixture of Expert/Imitator Networks (Kiyono et al., 2019)",
        brings="semi-supervised text classification with an expert and imitators",
        tasks=("semi_supervised_classification",),
        archs=(
            *("lstm_classifier", "recurrent_lm", "imitators"),
            *("encoder_classifier", "bert_classifier", "expert_and_imitators"),
        ),
        criterions=(
            *("classification_cross_entropy", "adversarial_cross_entropy"),
            *("virtual_adversarial_cross_entropy", "imitation_cross_entropy"),
        ),
        optimizers=("lazy_adam",),
        commands=("classify",),
    ),
    Paper(
        key="bytenet",
        title="Semi-Supervised Neural Machine Translation for small bilingual datasets (ByteNet)",
        brings="linear-time translation, trained on parallel and monolingual text",
        archs=(
            "bytenet",
            "bytenet_simplified",
            "bytenet_selu",
            "bytenet_no_norm",
            "bytenet_digits",
            "bytenet_v2",
        ),
        tasks=("reconstruction_translation",),
        criterions=("reconstruction_loss",),
        commands=("export --to translation",),
    ),
)


def markdown_table() -> str:
    """Return a Markdown table with a row for each paper."""
    rows = ["| paper | brings | use it with |", "| --- | --- | --- |"]
    rows += [f"| {paper.title} | {paper.brings} | {_use(paper)} |" for paper in PAPERS]
    return "\n".join(rows)


def _use(paper: Paper) -> str:
    return "<br>".join(f"`{use}`" for use in paper.uses)
