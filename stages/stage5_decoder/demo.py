"""Draws your own Transformer at work: `python -m stages.stage5_decoder.demo` (or `solutions.`).

It learns, in a few seconds, to write a word backwards. Whoever does that has to look at the source, letter by
letter, from its end to its beginning: so you know beforehand what its cross-attention must look like.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import torch
import torch.nn.functional as F
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from torch import Tensor, nn

from ..stage1_attention.attention import causal_mask, padding_mask
from .transformer import Transformer

PAD, SOS, EOS = 0, 1, 2
LETTERS = "abcdefghijklmnop"
VOCABULARY = ["<pad>", "<sos>", "<eos>", "<unk>", *LETTERS]
LONGEST = 7  # letters in a word
WORDS = ["dolphin", "camel"]

LogitsOf = Callable[[Transformer, Tensor, Tensor], Tensor]

# What makes reversal work: a schedule, and fresh random words in every batch.
STEPS, WARMUP, PEAK, BATCH = 500, 50, 0.01, 32


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw what your own Transformer does.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage5"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    draw_masks(options.out / "masks.png", options.device)
    draw_scale(options.out / "embedding_scale.png", options.device)
    print(f"    after {STEPS} steps          loss   tokens guessed   words written")
    model = learn_reversal(with_the_source, options.device)
    learn_reversal(without_the_source, options.device)
    draw_cross_attention(options.out / "cross_attention.png", model)
    show_what_it_reads(model)
    show_traps(options.device)


def draw_masks(path: Path, device: str) -> None:
    """The three masks of a batch of two words, as `forward` builds them."""
    src, tgt = encode(WORDS, device)
    tgt = tgt[:, :-1]  # what the decoder reads: all but the last token
    src_len, tgt_len = src.size(1), tgt.size(1)
    real_src = padding_mask(src, PAD)  # (batch, 1, 1, src_len)
    of_encoder = real_src.expand(-1, 1, src_len, -1)
    of_decoder = padding_mask(tgt, PAD) & causal_mask(tgt_len, device)  # (batch, 1, tgt_len, tgt_len)
    of_memory = real_src.expand(-1, 1, tgt_len, -1)

    figure, panels = plt.subplots(2, 3, figsize=(13, 8.6), layout="constrained")
    for row, word in enumerate(WORDS):
        source, target = names(src[row]), names(tgt[row])
        draw_mask(panels[row, 0], of_encoder[row, 0], source, source, f"{word}: encoder")
        draw_mask(panels[row, 1], of_decoder[row, 0], target, target, f"{word}: decoder, self-attention")
        draw_mask(panels[row, 2], of_memory[row, 0], target, source, f"{word}: decoder, cross-attention")
    save(
        figure,
        path,
        "blue may be seen; padding hides columns everywhere, the future only in the decoder's self-attention",
    )


def draw_mask(axes: Axes, mask: Tensor, queries: list[str], keys: list[str], title: str) -> None:
    axes.imshow(mask.cpu(), cmap="Blues", vmin=0, vmax=1.6)
    axes.set(title=title, xlabel="key", ylabel="query")
    axes.set_xticks(range(len(keys)), keys, rotation=90)
    axes.set_yticks(range(len(queries)), queries)
    axes.set_xticks([place - 0.5 for place in range(1, len(keys))], minor=True)
    axes.set_yticks([place - 0.5 for place in range(1, len(queries))], minor=True)
    axes.grid(which="minor", color="white")
    axes.tick_params(which="minor", length=0)


def draw_scale(path: Path, device: str) -> None:
    """Words and positions before they are added, for two ways to start an embedding."""
    torch.manual_seed(0)
    vocab, d_model = 1000, 128
    model = Transformer(vocab, vocab, d_model, num_heads=4, num_layers=1, d_ff=16, max_len=50).to(device)
    positions = model.positions.pe.detach()
    starts = {
        "Xavier-uniform, as in your model": model.src_embed.weight.detach(),
        "N(0, 1), as nn.Embedding starts": nn.Embedding(vocab, d_model).weight.detach(),
    }
    figure, panels = plt.subplots(1, 2, figsize=(13, 4.4), layout="constrained")
    print(
        f"    size of a typical number (root mean square), d_model = {d_model}; positions: {rms(positions):.2f}"
    )
    for axes, (start, embedding) in zip(panels, starts.items(), strict=True):
        scaled = embedding * math.sqrt(d_model)
        print(f"    {start}: {rms(embedding):.2f} as it is, {rms(scaled):.2f} times sqrt(d_model)")
        span = 2.2 * max(rms(scaled), rms(positions))
        for values, label in (
            (positions, "positions"),
            (embedding, "embedding"),
            (scaled, "embedding * sqrt(d_model)"),
        ):
            axes.hist(
                values.flatten().cpu(), bins=120, range=(-span, span), density=True, alpha=0.6, label=label
            )
        axes.set(title=start, xlabel="value", ylabel="density")
        axes.legend()
    save(
        figure,
        path,
        "sqrt(d_model) brings Xavier's small words up to the positions; from N(0, 1) it would drown the positions",
    )


def rms(values: Tensor) -> float:
    return values.square().mean().sqrt().item()


def with_the_source(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """The model as it should be used: the logits of every next token."""
    return model(src, tgt)


def without_the_source(model: Transformer, src: Tensor, tgt: Tensor) -> Tensor:
    """The mistake of many a tutorial: cross-attention gets the target for its keys and values."""
    real = padding_mask(tgt, PAD)
    embedded = model.positions(model.tgt_embed(tgt) * math.sqrt(model.tgt_embed.embedding_dim))
    hidden = model.decode(tgt, embedded, real & causal_mask(tgt.size(1), tgt.device), real)
    return model.fc_out(hidden)


def learn_reversal(logits_of: LogitsOf, device: str) -> Transformer:
    """Train a small model on words written backwards, and say how well it does on fresh ones."""
    torch.manual_seed(0)
    model = Transformer(
        len(VOCABULARY),
        len(VOCABULARY),
        d_model=32,
        num_heads=4,
        num_layers=1,
        d_ff=64,
        dropout=0.0,
        max_len=16,
    ).to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=PEAK, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / WARMUP, (STEPS - step) / (STEPS - WARMUP))
    )
    generator = torch.Generator().manual_seed(1)
    model.train()
    for _ in range(STEPS):
        src, tgt = encode(random_words(BATCH, generator), device)
        logits = logits_of(model, src, tgt[:, :-1])  # (batch, tgt_len, vocab): row i scores token i + 1
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    model.eval()
    print(f"    {score(model, logits_of, *encode(random_words(500, generator), device), loss.item())}")
    return model


@torch.no_grad()
def score(model: Transformer, logits_of: LogitsOf, src: Tensor, tgt: Tensor, loss: float) -> str:
    """The last loss, the next tokens guessed with the answer as input, and the words written without it."""
    real = tgt != PAD
    guessed = logits_of(model, src, tgt[:, :-1]).argmax(-1) == tgt[:, 1:]
    written = torch.full_like(tgt[:, :1], SOS)
    while written.size(1) < tgt.size(1):  # the likeliest token each time; stage 6 does this with more care
        logits = logits_of(model, src, written)[:, -1]  # (batch, vocab)
        written = torch.cat((written, logits.argmax(-1, keepdim=True)), dim=1)
    right = (written == tgt) | ~real
    name = "reads the source" if logits_of is with_the_source else "never reads the source"
    accuracy, exact = guessed[real[:, 1:]].float().mean(), right.all(1).float().mean()
    return f"{name:22}   {loss:4.2f}   {accuracy:14.2f}   {exact:13.2f}"


def random_words(count: int, generator: torch.Generator) -> list[str]:
    lengths = torch.randint(2, LONGEST + 1, (count,), generator=generator).tolist()
    picks = torch.randint(0, len(LETTERS), (count, LONGEST), generator=generator).tolist()
    return [
        "".join(LETTERS[pick] for pick in row[:length]) for row, length in zip(picks, lengths, strict=True)
    ]


@torch.no_grad()
def show_what_it_reads(model: Transformer) -> None:
    """Two questions that no loss answers: does it read the source, and does it keep off the future?"""
    device = model.fc_out.weight.device
    src, tgt = encode(["dolphin"], device)
    logits = model(src, tgt)
    other, _ = encode(["dolphic"], device)
    moved = (model(other, tgt) - logits)[0, 0].abs().max()
    print(f"another last letter in the source moves the logits of the first written letter by {moved:.1f}")
    future = torch.cat((tgt[:, :4], tgt[:, 4:].flip(1)), dim=1)
    moved = (model(src, future) - logits)[0, :4].abs().max()
    print(f"other target tokens from position 4 on move the logits before them by {moved:.1f}")


@torch.no_grad()
def draw_cross_attention(path: Path, model: Transformer) -> None:
    """What each written letter looks at, in the last layer, head by head."""
    src, tgt = encode(WORDS[:1], model.fc_out.weight.device)
    seen: list[Tensor] = []
    attention = model.decoder.layers[-1].cross_attn
    hook = attention.register_forward_hook(lambda module, inputs, output: seen.append(output[1]))
    model(src, tgt[:, :-1])
    hook.remove()
    weights = seen[0][0].cpu()  # (heads, tgt_len, src_len)

    rows = [
        f"{before} → {after}" for before, after in zip(names(tgt[0, :-1]), names(tgt[0, 1:]), strict=True)
    ]
    maps = {
        "mean of the heads": weights.mean(0),
        **{f"head {head}": weights[head] for head in range(len(weights))},
    }
    figure, panels = plt.subplots(
        1, len(maps), figsize=(3.4 * len(maps), 4.6), layout="constrained", sharey=True
    )
    for axes, (title, weight) in zip(panels, maps.items(), strict=True):
        axes.imshow(weight, cmap="Blues", vmin=0, vmax=1)
        axes.set(title=title, xlabel="source letter (key)")
        axes.set_xticks(range(src.size(1)), names(src[0]))
        axes.set_yticks(range(len(rows)), rows)
    panels[0].set_ylabel("token read → token written (query)")
    save(figure, path, "each letter is fetched where it stands: from the end of the source to its beginning")


@torch.no_grad()
def show_traps(device: str) -> None:
    """The traps of the lesson, sprung on purpose."""
    torch.manual_seed(0)
    model = Transformer(20, 20, d_model=32, num_heads=4, num_layers=2, d_ff=64, max_len=16).to(device).eval()
    src, tgt = encode(WORDS, device)
    causal = causal_mask(tgt.size(1), device)
    either = padding_mask(tgt, PAD) | causal
    future = int((either & ~causal)[0].sum())
    print(f"masks joined by | instead of &: 'dolphin' sees {future} places of its future")

    memory = model.encode(src)
    for side, ids in (("right", tgt), ("left", tgt.flip(1))):  # from right to left is as good a target here
        real = padding_mask(ids, PAD)
        right, wrong = model.decode(ids, memory, real & causal), model.decode(ids, memory, causal)
        moved = (right - wrong)[ids != PAD].abs().max()
        print(
            f"padding on the {side} of the target, visible: hidden states of real tokens move by {moved:.1g}"
        )

    perfect = torch.zeros(1, 10_000, device=device)
    perfect[0, 0] = 1.0  # all probability on the right word
    loss = F.cross_entropy(perfect, torch.zeros(1, dtype=torch.long, device=device))
    print(f"softmax before cross_entropy, 10,000 words, a perfect model: loss {loss:.2f}")

    print(
        f"1 source and 2 targets without a check: {tuple((memory[:1] + model.tgt_embed(tgt[:, :7])).shape)}, no error"
    )


def encode(words: Sequence[str], device: str | torch.device) -> tuple[Tensor, Tensor]:
    """Words and their reversals as ids, padded on the right: (batch, src_len) and (batch, src_len + 2)."""
    longest = max(len(word) for word in words)
    src, tgt = [], []
    for word in words:
        ids = [VOCABULARY.index(letter) for letter in word]
        padding = [PAD] * (longest - len(word))
        src.append(ids + padding)
        tgt.append([SOS, *reversed(ids), EOS, *padding])
    return torch.tensor(src, device=device), torch.tensor(tgt, device=device)


def names(ids: Tensor) -> list[str]:
    return [VOCABULARY[token] for token in ids.tolist()]


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
