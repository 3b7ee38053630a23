"""Your own GPT learns to write, letter by letter: `python -m stages.stage7_gpt.demo` (or `solutions.`).

    demo [train]                     train on the help texts of Python; go on where it was stopped
    demo train --text FILE           train on another text
    demo write CHECKPOINT "The "     go on with a text
    torchrun --nproc-per-node 2 -m stages.stage7_gpt.demo train      the same with two processes

Each command tells its options after --help.
"""

import argparse
import math
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

import torch
import torch.nn.functional as F
from rich.console import Console

from ..stage6_training.distributed import Ranks
from ..stage6_training.progress import Progress
from ..stage6_training.settings import BadInput, check_device, option, positive
from . import checkpoint as checkpoints
from .characters import Characters, Text, read
from .generation import generate
from .gpt import GPT
from .pictures import draw_curves, draw_sampling, draw_surprise
from .progress import progress_on
from .settings import Settings
from .trainer import Trainer

COMMANDS = ("train", "write")
CHECKPOINT = "gpt.safetensors"
SHOWN = 640  # characters of the validation part in the picture of surprise
STOPPED = 130


def main(argv: Sequence[str] | None = None) -> int:
    arguments = list(sys.argv[1:] if argv is None else argv)
    options = parser().parse_args(arguments if asks_for_command(arguments) else ["train", *arguments])
    try:
        check_device(options.device)
        return train(options) if options.command == "train" else write(options)
    except BadInput as error:
        print(error, file=sys.stderr)
        return 2


def asks_for_command(arguments: list[str]) -> bool:
    return bool(arguments) and arguments[0] in (*COMMANDS, "-h", "--help")


# Training


def train(options: argparse.Namespace) -> int:
    settings = Settings.of(vars(options))
    text = Text(*read(options.text), settings.block_size)
    path = options.out / CHECKPOINT
    ranks = Ranks(options.device)
    console = Console()
    try:
        trainer = Trainer(settings, text, path, ranks, amp=options.amp == "bf16", compiled=options.compile)
        if path.exists() and not options.fresh:
            trainer.resume()
        if ranks.is_first:
            announce(trainer)
        show = progress_on(console, settings.steps) if ranks.is_first else Progress()
        try:
            with show:
                trainer.train(show)
        except KeyboardInterrupt:
            return say_stopped(trainer)
        if ranks.is_first:
            report(trainer, options.out)
    finally:
        ranks.leave()
    return 0


def announce(trainer: Trainer) -> None:
    text = trainer.text
    count = sum(parameter.numel() for parameter in trainer.model.parameters())
    print(
        f"{len(text.train):,} characters to learn from, {len(text.valid):,} for validation, "
        f"{len(text.characters)} different ones; {count:,} parameters"
    )
    if trainer.history:
        print(f"{trainer.path} holds {trainer.steps_done} steps: going on from there (--fresh begins anew)")


def say_stopped(trainer: Trainer) -> int:
    if trainer.ranks.is_first:
        kept = (
            f"{trainer.path} holds step {trainer.steps_done}; the same command goes on from there"
            if trainer.history
            else "nothing is kept"
        )
        print(f"\nStopped. {kept}.", file=sys.stderr)
    return STOPPED


def report(trainer: Trainer, out: Path) -> None:
    """Say how well the best round does on all of the validation part, and draw."""
    trainer.use_best()
    loss, guessing = trainer.valid_loss(), math.log(len(trainer.text.characters))
    print(
        f"\nvalidation loss {loss:.3f} per character, on the whole part; one who guesses among "
        f"{len(trainer.text.characters)} characters has {guessing:.3f}. The model hesitates between "
        f"{math.exp(loss):.1f} characters each time."
    )
    draw_curves(out / "curves.png", trainer.history, guessing)
    print(f"{out / 'curves.png'}: the loss falls fast while it learns letters and words, then slowly")
    characters = trainer.text.characters
    shown = trainer.text.valid[:SHOWN]
    draw_surprise(out / "surprise.png", characters.decode(shown), surprises(trainer.model, shown))
    print(f"{out / 'surprise.png'}: dark where the model expected something else, mostly where words begin")
    before = trainer.text.valid[: trainer.settings.block_size]
    logits = next_logits(trainer.model, before)
    draw_sampling(out / "sampling.png", characters.characters, logits, characters.decode(before[-24:]))
    print(f"{out / 'sampling.png'}: one distribution, and what temperature, top_k and top_p leave of it")
    print(f"{trainer.path}: write with it:")
    print(f'    python -m {__spec__.name} write {trainer.path} "The "')


@torch.no_grad()
def surprises(model: GPT, ids: torch.Tensor) -> list[float]:
    """The loss of each character after the first; the model reads at most `block_size` of those before it."""
    device = model.token_embed.weight.device
    model.eval()
    losses = []
    for start in range(0, len(ids) - 1, model.config.block_size):
        window = ids[start : start + model.config.block_size + 1].to(device)
        logits, _ = model(window[None, :-1])
        losses += F.cross_entropy(logits[0].float(), window[1:], reduction="none").tolist()
    return losses


@torch.no_grad()
def next_logits(model: GPT, ids: torch.Tensor) -> torch.Tensor:
    """The logits (vocab_size,) of the character after `ids`, on the CPU."""
    logits, _ = model.eval()(ids[None].to(model.token_embed.weight.device))
    return logits[0, -1].float().cpu()


# Writing


def write(options: argparse.Namespace) -> int:
    model, characters = checkpoints.model_of(checkpoints.load(options.checkpoint), options.checkpoint)
    model.to(options.device)
    prompt = prompt_of(options.prompt, characters).to(options.device)
    generator = torch.Generator(options.device).manual_seed(options.seed)
    try:
        tokens = generate(
            model,
            prompt[None],
            options.length,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            generator=generator,
        )
    except ValueError as error:
        raise BadInput(str(error)) from None
    print(characters.decode(tokens[0]))
    if options.surprise:
        draw_surprise(options.surprise, characters.decode(tokens[0]), surprises(model, tokens[0]))
        print(f"{options.surprise}: dark where the model wrote what it expected least", file=sys.stderr)
    return 0


def prompt_of(text: str, characters: Characters) -> torch.Tensor:
    if not text:
        raise BadInput("the prompt is empty; give at least one character to begin with")
    if unknown := characters.unknown(text):
        raise BadInput(
            f"the model has never seen {', '.join(map(repr, unknown))}; it knows {characters.characters!r}"
        )
    return characters.encode(text)


# Options


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = whole.add_subparsers(dest="command", metavar="COMMAND")
    add_train(commands.add_parser("train", help="train a GPT (what is done without a command)"))
    add_write(commands.add_parser("write", help="go on with a text, with a checkpoint"))
    return whole


def add_train(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("--text", type=Path, metavar="FILE", help="any text in UTF-8 (Python's help topics)")
    add("--out", type=Path, default=Path("out/stage7"), metavar="DIR", help="for what it makes (out/stage7)")
    add("--fresh", action="store_true", help="begin anew, and write over the checkpoint that is there")
    add("--device", default="cpu", help="cpu, cuda or mps")
    add("--amp", choices=["bf16"], help="compute in bfloat16 where that is safe")
    add("--compile", action="store_true", help="compile the model with torch.compile first")
    group = command.add_argument_group("the model and how it learns")
    for field in fields(Settings):
        kind = type(field.default)
        name = "WORD" if kind is str else "N"
        group.add_argument(
            option(field.name), type=kind, default=field.default, metavar=name, help=f"({field.default})"
        )


def add_write(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add("checkpoint", type=Path, help=f"the file that training has written, {CHECKPOINT}")
    add("prompt", nargs="?", default="\n", help="the text to go on with (a new line)")
    add("--length", type=positive, default=400, metavar="N", help="characters to write (400)")
    add("--temperature", type=float, default=0.8, metavar="T", help="0 takes the likeliest each time (0.8)")
    add("--top-k", type=int, metavar="K", help="draw among the K likeliest only")
    add("--top-p", type=float, metavar="P", help="draw among the likeliest that together reach P only")
    add("--seed", type=int, default=0, metavar="N", help="another seed, another text (0)")
    add("--surprise", type=Path, metavar="FILE.png", help="draw how little each character was expected")
    add("--device", default="cpu", help="cpu, cuda or mps")


if __name__ == "__main__":
    sys.exit(main())
