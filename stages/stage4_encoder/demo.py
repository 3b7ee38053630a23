"""Draws your own encoder at work: `python -m stages.stage4_encoder.demo` (or `solutions.`).

Nothing is trained here: every picture shows fresh layers, because that is where training has to begin.
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

from ..stage1_attention.attention import padding_mask
from .encoder import Encoder, EncoderLayer, FeedForward, LayerNorm

LONG = ["the", "animal", "did", "not", "cross", "the", "street", "because", "it", "was", "tired"]
SHORT = ["it", "was", "tired"]
VOCABULARY = ["<pad>", *dict.fromkeys(LONG)]

D_MODEL, NUM_HEADS, D_FF, NUM_LAYERS = 64, 4, 256, 24

Branch = Callable[[EncoderLayer, Tensor], Tensor]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Draw what your own encoder does.")
    parser.add_argument(
        "--out", type=Path, default=Path("out/stage4"), metavar="DIR", help="where the pictures go"
    )
    parser.add_argument("--device", default="cpu", help="cpu, cuda or mps")
    options = parser.parse_args(argv)
    options.out.mkdir(parents=True, exist_ok=True)
    draw_layer_norm(options.out / "layer_norm.png", options.device)
    draw_depth(options.out / "depth.png", options.device)
    draw_influence(options.out / "influence.png", options.device)
    with torch.no_grad():
        show_traps(options.device)


def draw_layer_norm(path: Path, device: str) -> None:
    """Three tokens before and after your LayerNorm: an ordinary one, a large one, one with a large mean."""
    tokens = torch.randn(3, 24, generator=torch.Generator().manual_seed(4)).to(device)
    tokens = tokens * torch.tensor([[1.0], [6.0], [1.0]], device=device)
    tokens[2] += 8.0
    with torch.no_grad():
        normed = LayerNorm(24).to(device)(tokens)

    figure, rows = plt.subplots(2, 3, figsize=(13, 5.5), sharey="row", layout="constrained")
    names = ("ordinary", "six times as large", "shifted by 8")
    for before, after, token, new, name in zip(rows[0], rows[1], tokens, normed, names, strict=True):
        draw_token(before, token, name)
        draw_token(after, new, "after your LayerNorm")
    save(figure, path, "whatever size and mean a token comes with, the next layer sees mean 0 and variance 1")


def draw_token(axes: Axes, token: Tensor, title: str) -> None:
    axes.bar(range(len(token)), token.tolist())
    axes.axhline(token.mean().item(), color="black", linewidth=1)
    mean = round(token.mean().item(), 2) + 0.0  # + 0.0 makes 0.00 of -0.00
    variance = token.var(correction=0).item()
    axes.set(title=f"{title}\nmean {mean:.2f}, variance {variance:.2f}", xlabel="feature")


# The residual stream, layer by layer


def pre_norm_alone(layer: EncoderLayer, x: Tensor) -> Tensor:
    """Your pre-norm layer without its skip paths: each branch replaces the stream."""
    normed = layer.norm1(x)
    attended, _ = layer.self_attn(normed, normed, normed)
    return layer.feed_forward(layer.norm2(attended))


def post_norm_alone(layer: EncoderLayer, x: Tensor) -> Tensor:
    """Your post-norm layer without its skip paths."""
    attended, _ = layer.self_attn(x, x, x)
    return layer.norm2(layer.feed_forward(layer.norm1(attended)))


def bare(layer: EncoderLayer, x: Tensor) -> Tensor:
    """Neither skip paths nor norms."""
    attended, _ = layer.self_attn(x, x, x)
    return layer.feed_forward(attended)


WAYS: list[tuple[str, bool, Branch, str]] = [
    ("pre-norm", True, lambda layer, x: layer(x), "C0-"),
    ("post-norm", False, lambda layer, x: layer(x), "C1-"),
    ("pre-norm, no residuals", True, pre_norm_alone, "C0:"),
    ("post-norm, no residuals", False, post_norm_alone, "C1:"),
    ("no norms, no residuals", True, bare, "k:"),
]


def draw_depth(path: Path, device: str) -> None:
    """What becomes of the stream, and of the gradient on its way back, in 24 of your layers."""
    figure, panels = plt.subplots(1, 3, figsize=(16, 4.8), layout="constrained")
    print(
        f"    after {NUM_LAYERS} layers:          rms of the stream   tokens differ by   gradient in layer 1"
    )
    for name, norm_first, step, style in WAYS:
        stream, gradients = run_through(norm_first, step, device)
        sizes = [rms(x) for x in stream]
        # The share of a token that is its own: what is left when the mean of its sentence is taken away.
        own = [rms(x - x.mean(dim=1, keepdim=True)) / rms(x) for x in stream]
        panels[0].semilogy(sizes, style, label=name)
        panels[1].semilogy([max(share, 1e-8) for share in own], style, label=name)
        panels[2].semilogy(range(1, NUM_LAYERS + 1), gradients, style, label=name)
        print(f"    {name:26} {sizes[-1]:15.2g} {own[-1]:17.2g} {gradients[0]:20.2g}")
    panels[0].set(title="size of the stream", xlabel="after layer", ylabel="root mean square")
    panels[1].set(
        title="what tells the tokens apart", xlabel="after layer", ylabel="share of a token that is its own"
    )
    panels[2].set(title="gradient", xlabel="layer", ylabel="gradient norm of the layer's weights")
    panels[2].legend()
    save(
        figure,
        path,
        "without residuals all tokens of a sentence become one within a few layers; "
        "with them the stream grows (pre-norm) or is held at 1 (post-norm)",
    )


def run_through(norm_first: bool, step: Branch, device: str) -> tuple[list[Tensor], list[float]]:
    """The stream before, between and after your layers, and the gradient norm of each layer's weights."""
    torch.manual_seed(0)
    encoder = fresh_encoder(NUM_LAYERS, norm_first, device)
    x, target = torch.randn(2, 8, 16, D_MODEL).to(device)  # 8 sentences of 16 tokens
    stream = [x]
    for layer in encoder.layers:
        x = step(layer, x)
        stream.append(x)
    output = x if encoder.norm is None or step is bare else encoder.norm(x)
    F.mse_loss(output, target).backward()
    gradients = [
        math.sqrt(sum(p.grad.square().sum().item() for p in layer.parameters() if p.grad is not None))
        for layer in encoder.layers
    ]
    return [x.detach() for x in stream], gradients


def fresh_encoder(num_layers: int, norm_first: bool, device: str) -> Encoder:
    """Your encoder without dropout, its matrices filled as the whole model of stage 5 fills them."""
    encoder = Encoder(num_layers, D_MODEL, NUM_HEADS, D_FF, dropout=0.0, norm_first=norm_first)
    for parameter in encoder.parameters():
        if parameter.dim() > 1:
            nn.init.xavier_uniform_(parameter)
    return encoder.to(device)


def rms(x: Tensor) -> float:
    """The root of the mean square: the size of a typical number."""
    return x.square().mean().sqrt().item()


# Who reads whom


def draw_influence(path: Path, device: str) -> None:
    """How strongly each output of your encoder depends on each word, with and without a padding mask."""
    tokens = encode([LONG, SHORT], device)
    mask = padding_mask(tokens)
    torch.manual_seed(0)
    x = torch.randn(len(VOCABULARY), D_MODEL).to(device)[tokens]  # a random vector for each word
    words = SHORT + ["<pad>"] * (len(LONG) - len(SHORT))

    figure, panels = plt.subplots(1, 3, figsize=(15, 3), layout="constrained")
    for axes, num_layers, seen, title in (
        (panels[0], 1, mask, "1 layer, padding mask"),
        (panels[1], 6, mask, "6 layers, padding mask"),
        (panels[2], 6, None, "6 layers, no mask"),
    ):
        torch.manual_seed(1)
        influence = influence_of_words(fresh_encoder(num_layers, True, device), x, seen)
        axes.imshow(influence.cpu(), cmap="Blues", vmin=0, vmax=0.6)
        axes.set(title=title, xlabel="depends on the word", ylabel="output at")
        axes.set_xticks(range(len(words)), words, rotation=90)
        axes.set_yticks(range(len(SHORT)), SHORT)
        lost = influence[:, len(SHORT) :].sum(dim=1).mean().item()
        print(f"    {title}: share of a real word's output that comes from <pad>: {lost:.2f}")
    save(
        figure,
        path,
        "each output depends most on its own word: the skip path; a mask keeps <pad> out of every layer",
    )


def influence_of_words(encoder: Encoder, x: Tensor, mask: Tensor | None) -> Tensor:
    """(3, seq): for each real word of the short sentence, how much its output moves with each word, as shares."""
    x = x.clone().requires_grad_()
    output = encoder(x, mask)[1]  # (seq, d_model), the short sentence
    rows = []
    for position in range(len(SHORT)):
        direction = torch.randn(D_MODEL, generator=torch.Generator().manual_seed(position)).to(x.device)
        (gradient,) = torch.autograd.grad(output[position] @ direction, x, retain_graph=True)
        rows.append(gradient[1].norm(dim=-1))  # (seq,)
    influence = torch.stack(rows)
    return influence / influence.sum(dim=1, keepdim=True)


# The traps of the lesson


def show_traps(device: str) -> None:
    """The traps of the lesson, sprung on purpose."""
    for width in (4, 512):
        token = torch.randn(1000, width, generator=torch.Generator().manual_seed(0)).to(device)
        ratio = (token.std(-1, correction=1) / token.std(-1, correction=0)).mean()
        print(
            f"d_model {width}: divided by the unbiased std, a token comes out {100 * (1 - 1 / ratio):.1f} % smaller"
        )

    token = torch.tensor([[1e-4, -1e-4] * 8], device=device)
    spread = token.var(-1, correction=0)
    inside, outside = token / (spread + 1e-5).sqrt(), token / (spread.sqrt() + 1e-5)
    print(f"a token of ±0.0001: eps inside the root gives ±{inside[0, 0]:.2f}, outside ±{outside[0, 0]:.2f}")

    token = 5000 + torch.randn(1, 64, generator=torch.Generator().manual_seed(0)).to(device)
    cancelled = token.square().mean() - token.mean().square()
    print(
        f"a token with mean 5000 in float32: mean of squares minus square of mean gives {cancelled:.2f}, "
        f"the variance is {token.var(correction=0):.2f}"
    )

    show_silent_branches(device)
    show_fresh_norms(device)
    show_counts()

    x = torch.linspace(-6, 6, 10001)
    print(
        f"GELU with erf and with tanh: at most {(F.gelu(x) - F.gelu(x, approximate='tanh')).abs().max():.5f} apart"
    )
    print(
        f"12 dropouts of 0.1 on the stream, one after the other: {0.9**12:.2f} of the features come through untouched"
    )


def show_silent_branches(device: str) -> None:
    """With both branches silenced, pre-norm is the identity, and post-norm two norms in a row."""
    x = torch.randn(1, 5, D_MODEL, generator=torch.Generator().manual_seed(0)).to(device) * 3
    for norm_first in (True, False):
        layer = EncoderLayer(D_MODEL, NUM_HEADS, D_FF, norm_first=norm_first).to(device).eval()
        for linear in (layer.self_attn.w_o, layer.feed_forward.linear2):
            nn.init.zeros_(linear.weight)
            nn.init.zeros_(linear.bias)
        expected, formula = (x, "x") if norm_first else (layer.norm2(layer.norm1(x)), "norm2(norm1(x))")
        name = "pre-norm" if norm_first else "post-norm"
        difference = (layer(x) - expected).abs().max()
        print(f"{name} with silent branches: your output differs from {formula} by {difference:.1g}")


def show_fresh_norms(device: str) -> None:
    """norm1 in the place of norm2: nobody sees it until the norms are trained."""
    torch.manual_seed(0)
    layer = EncoderLayer(D_MODEL, NUM_HEADS, D_FF).to(device).eval()
    x = torch.randn(1, 5, D_MODEL).to(device)
    differences = []
    for _ in range(2):
        right = layer(x)
        kept, layer.norm2 = layer.norm2, layer.norm1
        differences.append((layer(x) - right).abs().max().item())
        layer.norm2 = kept
        nn.init.normal_(layer.norm1.weight, mean=1.0, std=0.3)  # as if trained
    fresh, trained = differences
    print(
        f"norm1 used twice: your output differs by {fresh:.1g} while the norms are fresh, "
        f"by {trained:.1g} once they are trained"
    )


def show_counts() -> None:
    """Where the weights of a layer are, and what [layer] * 6 makes of a stack."""
    layer = EncoderLayer(512, 8, 2048)
    attention, network = count(layer.self_attn), count(FeedForward(512, 2048))
    print(
        f"one layer of the base model: {attention:,} weights in attention, {network:,} in the feed-forward network"
    )
    own = nn.ModuleList(EncoderLayer(512, 8, 2048) for _ in range(6))
    print(f"six layers: {count(own):,} weights; [layer] * 6: {count(nn.ModuleList([layer] * 6)):,}")


def count(module: nn.Module) -> int:
    """How many numbers are trained, shared ones once."""
    return sum(parameter.numel() for parameter in module.parameters())


def encode(sentences: list[list[str]], device: str) -> Tensor:
    """(batch, seq) token ids, padded on the right; <pad> is 0."""
    longest = max(len(words) for words in sentences)
    padded = [words + ["<pad>"] * (longest - len(words)) for words in sentences]
    return torch.tensor([[VOCABULARY.index(word) for word in words] for words in padded], device=device)


def save(figure: plt.Figure, path: Path, what_to_see: str) -> None:
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"{path}: {what_to_see}")


if __name__ == "__main__":
    main()
