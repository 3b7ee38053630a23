"""Your own Transformer learns to translate: `python -m stages.stage6_training.demo` (or `solutions.`).

    demo [train]                        train a translator, Chinese to English; go on where it was stopped
    demo translate CHECKPOINT 我喜欢茶。   translate with it, and draw where each word looks
    demo reverse                        the first task: words written backwards
    torchrun --nproc-per-node 2 -m stages.stage6_training.demo train      the same with two processes

Each command tells its options after --help.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table

from . import checkpoint as checkpoints
from .corpus import Corpus, load_corpus, place_of
from .decoding import beam_search, greedy_decode, sample
from .distributed import Ranks
from .pictures import draw_attention, draw_curves
from .progress import Entry, Progress, progress_on, telling_epochs, translations_table
from .reversal import learn_reversal
from .settings import BadInput, Settings, check_device, option, positive
from .trainer import Trainer, bleu_of
from .translator import Decode, Translator, sentence_of
from .vocab import tokenize_zh

COMMANDS = ("train", "translate", "reverse")
CHECKPOINT = "translator.safetensors"
SENTENCES_FOR_TRAINING_BLEU = 500
STOPPED = 130


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments if asks_for_command(arguments) else ["train", *arguments])
    try:
        check_device(options.device)
        if options.command == "train":
            return train(options)
        if options.command == "translate":
            return translate(options)
        return reverse(options)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2


def asks_for_command(arguments: list[str]) -> bool:
    return bool(arguments) and arguments[0] in (*COMMANDS, "-h", "--help")


# Training


def train(options: argparse.Namespace) -> int:
    settings = Settings.of(vars(options))
    corpus, translator = prepare(options.corpus, settings)
    path = options.out / CHECKPOINT
    ranks = Ranks(options.device)
    console = Console()
    try:
        trainer = Trainer(
            translator,
            corpus,
            options.corpus,
            path,
            ranks,
            options.patience,
            amp=options.amp == "bf16",
            compiled=options.compile,
        )
        if path.exists() and not options.fresh:
            trainer.resume()
        if ranks.is_first:
            announce(trainer)
        show = progress_on(console, options.epochs, trainer.samples) if ranks.is_first else Progress()
        try:
            with show:
                trainer.train(options.epochs, show)
        except KeyboardInterrupt:
            return say_stopped(trainer)
        if ranks.is_first:
            report(trainer, console, options)
    finally:
        ranks.leave()
    return 0


def prepare(name: str, settings: Settings) -> tuple[Corpus, Translator]:
    """Read a corpus and make a fresh translator for it; a sentence that is too long is named by its line."""
    try:
        corpus = load_corpus(name)
    except (OSError, ValueError) as error:
        raise BadInput(str(error)) from None
    translator = Translator.build(settings, corpus.train)
    for pair in [pair for part in corpus for pair in part]:
        if length := translator.too_long(pair):
            raise BadInput(
                f"{place_of(name, pair)}: {length} tokens with <sos> and <eos>, and --max-len is "
                f"{settings.max_len}; shorten the sentence, or give --max-len {length}"
            )
    return corpus, translator


def announce(trainer: Trainer) -> None:
    train, valid, test = map(len, trainer.corpus)
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(f"{train:,} pairs to learn from, {valid:,} for validation, {test:,} for test; {count:,} parameters")
    if trainer.history:
        print(
            f"{trainer.path} holds {len(trainer.history)} epochs: going on from there (--fresh begins anew)"
        )


def say_stopped(trainer: Trainer) -> int:
    done = len(trainer.history)
    if trainer.ranks.is_first:
        kept = (
            f"{trainer.path} holds epoch {done}; the same command goes on from there"
            if done
            else "nothing is kept"
        )
        print(f"\nStopped in epoch {done + 1}. {kept}.", file=sys.stderr)
    return STOPPED


def report(trainer: Trainer, console: Console, options: argparse.Namespace) -> None:
    """Say how well the best epoch does, on each part, and draw the curves."""
    history, corpus = trainer.history, trainer.corpus
    best = max(history, key=lambda entry: entry["bleu"])
    reason = f", BLEU has not risen for {options.patience} epochs" if trainer.stopped else ""
    print(f"\n{len(history)} epochs{reason}. Translations as they improved:\n")
    console.print(translations_table(trainer.samples, telling_epochs(history)))
    rows = [("last", history[-1])] if history[-1] is not best else []
    table, signature = scores_table(trainer, [*rows, ("best", best)])
    print()
    console.print(table)
    print(
        f"The loss is per token, in training with dropout. BLEU: sacrebleu {signature}, on lower-cased sentences"
    )
    draw_curves(options.out / "curves.png", history)
    print(f"{options.out / 'curves.png'}: loss, BLEU and learning rate; the star is the epoch that is kept")
    print(f"{trainer.path}: translate with it:")
    print(f"    python -m {__spec__.name} translate {trainer.path} {corpus.test[0].chinese}")


def scores_table(trainer: Trainer, rows: list[tuple[str, Entry]]) -> tuple[Table, str]:
    """Measure epochs on every part, the best one last: its weights stay in the model. Also BLEU's signature."""
    corpus = trainer.corpus
    learned = corpus.train[:SENTENCES_FOR_TRAINING_BLEU]
    table = Table(box=None, pad_edge=False)
    for title in ("epoch", "train loss", "valid loss", "train BLEU", "valid BLEU", "test BLEU"):
        table.add_column(title, justify="right")
    for name, entry in rows:
        if name == "best":
            trainer.use_best()
        train_bleu, _ = bleu_of(trainer.translate(learned), learned)
        test_bleu, signature = bleu_of(trainer.translate(corpus.test), corpus.test)
        losses = [f"{entry[loss]:.3f}" for loss in ("train_loss", "valid_loss")]
        scores = [f"{score:.1f}" for score in (train_bleu, entry["bleu"], test_bleu)]
        table.add_row(f"{name}, {entry['epoch']}", *losses, *scores)
    return table, signature


# Translating


def translate(options: argparse.Namespace) -> int:
    translator = checkpoints.translator_of(checkpoints.load(options.checkpoint), options.checkpoint)
    translator.model.to(options.device).eval()
    for sentence in options.sentence:
        if unknown := translator.check(sentence):
            print(f"not in the vocabulary, read as <unk>: {unknown}", file=sys.stderr)
    decode = decoder(options)
    for sentence in options.sentence:
        tokens = translator.translate([sentence], decode)[0]
        print(sentence_of(tokens) or "(the model wrote nothing)")
    if options.map:
        weights = cross_attention(translator, sentence, tokens)
        source = ["<sos>", *tokenize_zh(sentence), "<eos>"]
        if note := draw_attention(options.map, weights, source, [*tokens, "<eos>"], options.font):
            print(note, file=sys.stderr)
        print(f"{options.map}: each row is a written word, dark where it looks among the characters")
    return 0


def decoder(options: argparse.Namespace) -> Decode:
    """The way of decoding that the options ask for, with its settings filled in."""
    if options.beam is not None:
        return partial(beam_search, beam=options.beam)
    if options.sample is not None:
        generator = torch.Generator(options.device).manual_seed(options.seed)
        return partial(sample, temperature=options.sample, generator=generator)
    return greedy_decode


@torch.no_grad()
def cross_attention(translator: Translator, sentence: str, tokens: list[str]) -> torch.Tensor:
    """The weights `(layers, tgt_len, src_len)` with which each written token read the source: means over heads."""
    src = torch.tensor([translator.chinese_ids(sentence)], device=translator.device)
    tgt = torch.tensor([translator.english.encode(tokens)[:-1]], device=translator.device)
    seen: list[torch.Tensor] = []
    hooks = [
        layer.cross_attn.register_forward_hook(lambda module, inputs, output: seen.append(output[1]))
        for layer in translator.model.decoder.layers
    ]
    translator.model(src, tgt)
    for hook in hooks:
        hook.remove()
    return torch.stack([weights[0].mean(0) for weights in seen])


# Reversal


def reverse(options: argparse.Namespace) -> int:
    print(
        "words of fresh letters, written backwards; right: without a single mistake, letter after letter by itself"
    )
    for result in learn_reversal(options.rounds, options.seed, options.device):
        print(
            f"round {result.round}/{options.rounds}  train loss {result.loss:.3f}  "
            f"valid loss {result.valid_loss:.3f}  right {result.exact:6.1%}  "
            + "  ".join(f"{word} → {written}" for word, written in list(result.written.items())[:2])
        )
    return 0


# Options


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    add_train(commands.add_parser("train", help="train a translator (what is done without a command)"))
    add_translate(commands.add_parser("translate", help="translate with a checkpoint"))
    backwards = commands.add_parser("reverse", help="learn to write words backwards")
    backwards.add_argument("--rounds", type=positive, default=25, metavar="N", help="of 60 batches each (25)")
    backwards.add_argument("--seed", type=int, default=0, metavar="N")
    backwards.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    return whole


def add_train(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--corpus", default="data/zh_en", help="data/zh_en, generated, or a file of your own (data/zh_en)")
    add(
        "--out",
        type=Path,
        default=Path("out/stage6"),
        metavar="DIR",
        help="for checkpoint and curves (out/stage6)",
    )
    add("--epochs", type=positive, default=40, metavar="N", help="at most so many, also after a resume (40)")
    add(
        "--patience",
        type=positive,
        default=15,
        metavar="N",
        help="stop after N epochs without a better BLEU (15)",
    )
    add("--fresh", action="store_true", help="begin anew, and write over the checkpoint that is there")
    add("--device", default="cpu", help="cpu, cuda or mps")
    add("--amp", choices=["bf16"], help="compute in bfloat16 where that is safe")
    add("--compile", action="store_true", help="compile the model with torch.compile first")
    add("--seed", type=int, default=0, metavar="N", help="first weights, order of the sentences, dropout (0)")
    group = command.add_argument_group("the model and how it learns")
    for field in fields(Settings):
        if field.name != "seed":
            kind = type(field.default)
            group.add_argument(
                option(field.name), type=kind, default=field.default, metavar="N", help=f"({field.default})"
            )


def add_translate(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("checkpoint", type=Path, help=f"the file that training has written, {CHECKPOINT}")
    add("sentence", nargs="+", help="Chinese, each sentence in quotation marks")
    way = command.add_mutually_exclusive_group()
    way.add_argument("--greedy", action="store_true", help="take the likeliest token each time (the default)")
    way.add_argument("--beam", type=positive, metavar="N", help="beam search with N hypotheses")
    way.add_argument("--sample", type=temperature, metavar="T", help="draw tokens, at temperature T")
    add("--map", type=Path, metavar="FILE.png", help="draw the cross-attention of the last sentence")
    add("--font", type=Path, metavar="FILE", help="a font file with Chinese characters, for --map")
    add("--seed", type=int, default=0, metavar="N", help="for --sample (0)")
    add("--device", default="cpu", help="cpu, cuda or mps")


def temperature(text: str) -> float:
    if not (number := float(text)) > 0:
        raise argparse.ArgumentTypeError(
            f"a temperature is above 0, and {number} is not; --greedy is its limit"
        )
    return number


if __name__ == "__main__":
    sys.exit(main())
