"""Training speed of classifiers and imitators in tokens/s (Kiyono, 2022, table 3.4).

The weights are random and the frequencies of tokens follow Zipf's law. The speed of --what is
reported relative to an LSTM classifier: adv and vat, with one unlabeled text for each labeled text,
bf16, an LSTM in bfloat16 autocast as with --amp, or imitators with windows 1 to N. As in that
table, the time of the forward and backward passes counts. --optimizer includes the step of Adam.
--sparse-gradients updates only those embeddings of the imitators that occur in the batch. The time
excludes the computation of the teacher's labels.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import harness
import torch
from torch import Tensor, nn

import fairseq_ssl

fairseq_ssl.register()

from fairseq.data import Dictionary  # noqa: E402

from fairseq_ssl.criterions import classification_cross_entropy as losses  # noqa: E402
from fairseq_ssl.criterions.classification_cross_entropy import ImitationCrossEntropy  # noqa: E402
from fairseq_ssl.models.recurrent_models import LstmClassifier, LstmClassifierConfig  # noqa: E402
from fairseq_ssl.modules import window_classifiers  # noqa: E402
from fairseq_ssl.modules.window_classifiers import Imitators  # noqa: E402
from fairseq_ssl.optim.adam import RowAdam  # noqa: E402

GOALS = {"adv": 0.40, "vat": 0.30, "1": 15.0, "2": 7.0, "3": 3.5, "4": 2.5}
BF16 = "bf16"
FORMS = {"auto": window_classifiers.MAX_TYPE_TOKEN_RATIO, "types": 2, "convolution": 0}
"""Maximum ratio of distinct subwords at which each of them is projected once."""
CLASSES = 2


class Pieces(nn.Module):
    """Imitators that take the subwords under the name of the batch."""

    def __init__(self, imitators: Imitators) -> None:
        super().__init__()
        self.imitators = imitators

    def forward(self, piece_tokens: Tensor) -> Any:
        """Return the logits of all windows of the texts."""
        return self.imitators(piece_tokens)


def main() -> None:
    """Run the benchmark and print its report."""
    options = harness.parser((__doc__ or "").splitlines()[0])
    options.add_argument("--what", choices=(*GOALS, BF16), default="4")
    options.add_argument(
        "--form", choices=FORMS, default="auto", help="form of the imitators' convolution"
    )
    options.add_argument("--length", type=int, default=200, help="text length in tokens")
    options.add_argument("--batch", type=int, default=32, help="texts in a batch")
    options.add_argument("--steps", type=int, default=1, help="training steps in a run")
    options.add_argument(
        "--vocabulary", type=int, default=20000, help="number of words, and of subwords"
    )
    options.add_argument(
        "--dim", type=int, default=256, help="embedding dimension, D in Kiyono (2022)"
    )
    options.add_argument(
        "--hidden", type=int, default=1024, help="hidden dimension, H in Kiyono (2022)"
    )
    options.add_argument(
        "--channels",
        type=int,
        default=512,
        help="dimension of the imitators and their embeddings, N in Kiyono (2022)",
    )
    options.add_argument(
        "--optimizer", action="store_true", help="include the step of Adam in the time"
    )
    options.add_argument(
        "--sparse-gradients",
        action="store_true",
        help="with --optimizer: update only the embeddings that occur in the batch",
    )
    args = harness.parse(options)
    goal = None if args.optimizer else GOALS.get(args.what)  # the goals exclude the step of Adam
    comparison = harness.Comparison(
        *("classification_training", args.what, "lstm", "tokens/s", goal), vars(args)
    )
    first, second = trainer(args.what, args), trainer("lstm", args)
    harness.compare(comparison, first, second, args.pairs)
    harness.publish(comparison)


def trainer(what: str, args: Any) -> harness.Run:
    """Return a run of training steps, which returns the number of tokens."""
    torch.manual_seed(1)
    task: Any = SimpleNamespace(stage="imitate", target_dictionary=None)
    task.source_dictionary, task.classes = dictionary(args.vocabulary), list(range(CLASSES))
    tokens = texts(args)
    batch: dict[str, Any] = {"nsentences": args.batch, "ntokens": tokens.numel()}
    if what.isdigit():
        windows = range(1, int(what) + 1)
        sizes = (args.vocabulary, CLASSES, windows, 1, args.channels, args.channels)
        imitators = Imitators(*sizes, sparse_gradients=args.sparse_gradients)
        window_classifiers.MAX_TYPE_TOKEN_RATIO = FORMS[args.form]
        model: nn.Module = Pieces(imitators)
        criterion: Any = ImitationCrossEntropy(task)
        batch["net_input"] = {"piece_tokens": tokens}
        batch["teacher"] = torch.rand(args.batch, CLASSES, device=args.device).softmax(-1)
    else:
        model, criterion = expert(what, args, task)
        lengths = torch.full((args.batch,), args.length, device=args.device)
        batch["net_input"] = {"src_tokens": tokens, "src_lengths": lengths}
        batch["target"] = torch.randint(0, CLASSES, (args.batch,), device=args.device)
        if what == "vat":
            batch["unlabeled"] = {"src_tokens": texts(args), "src_lengths": lengths}
    model = model.to(args.device).train()
    adam = RowAdam(model.parameters(), 1e-3) if args.optimizer else None

    def run() -> int:
        for _ in range(args.steps):
            model.zero_grad()
            with torch.autocast(args.device, torch.bfloat16, enabled=what == BF16):
                loss = criterion(model, batch)[0]
            loss.backward()
            if adam is not None:
                adam.step()
        return int(args.steps * tokens.numel())

    return run


def expert(what: str, args: Any, task: Any) -> tuple[nn.Module, Any]:
    """Return the LSTM classifier and its loss."""
    cfg = LstmClassifierConfig(
        recurrent_embed_dim=args.dim,
        recurrent_hidden_dim=args.hidden,
        recurrent_normalize_embeddings=what in ("adv", "vat"),
    )
    kinds: dict[str, Any] = {
        "lstm": lambda: losses.ClassificationCrossEntropy(task),
        BF16: lambda: losses.ClassificationCrossEntropy(task),
        "adv": lambda: losses.AdversarialCrossEntropy(task, 5.0),
        "vat": lambda: losses.VirtualAdversarialCrossEntropy(task, 5.0),
    }
    return LstmClassifier.build_model(cfg, task), kinds[what]()


def texts(args: Any) -> Tensor:
    """Return random ids, [batch, length], whose frequencies follow Zipf's law."""
    weights = 1 / torch.arange(1, args.vocabulary - 3).float()
    drawn = torch.multinomial(weights, args.batch * args.length, replacement=True)
    return (drawn + 4).view(args.batch, args.length).to(args.device)


def dictionary(size: int) -> Dictionary:
    """Return a dictionary of `size` entries."""
    found = Dictionary()
    for number in range(size - len(found)):
        found.add_symbol(f"w{number}", n=size // (number + 1) + 1)
    return found


if __name__ == "__main__":
    main()
