"""What training keeps in memory for the backward pass, and two ways to keep less.

Most of what a step needs is not the weights but the activations: nearly every operation saves its input, so that
`backward` can compute gradients from it. Here they are counted, in bytes.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.checkpoint import checkpoint

from ...stage5_decoder.transformer import Transformer
from .task import PAD, VOCABULARY, encode, random_words

Gradients = dict[str, Tensor]


class SavedBytes:
    """Counts the bytes that autograd holds for `backward`: now, and at most so far.

    Two saved tensors that share their memory count once. Weights do not count: they are there anyway.
    """

    def __init__(self, model: nn.Module) -> None:
        self.weights = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
        self.holders: dict[int, int] = {}  # address of the memory -> how many saved tensors use it
        self.now = 0
        self.peak = 0

    def hold(self, tensor: Tensor) -> "Held":
        address, size = tensor.untyped_storage().data_ptr(), tensor.untyped_storage().nbytes()
        if address in self.weights:
            size = 0
        if self.holders.get(address, 0) == 0:
            self.now += size
            self.peak = max(self.peak, self.now)
        self.holders[address] = self.holders.get(address, 0) + 1
        return Held(tensor, address, size, self)

    def let_go(self, address: int, size: int) -> None:
        self.holders[address] -= 1
        if self.holders[address] == 0:
            self.now -= size


class Held:
    """A saved tensor; autograd drops it when it is no longer needed, and then it is counted off."""

    def __init__(self, tensor: Tensor, address: int, size: int, count: SavedBytes) -> None:
        self.tensor, self.address, self.size, self.count = tensor, address, size, count

    def __del__(self) -> None:
        self.count.let_go(self.address, self.size)


@contextmanager
def counting(model: nn.Module) -> Iterator[SavedBytes]:
    """Count what is saved for `backward` by all that runs inside."""
    count = SavedBytes(model)
    with saved_tensors_hooks(count.hold, lambda held: held.tensor):
        yield count


def summed_loss(model: nn.Module, src: Tensor, tgt: Tensor) -> Tensor:
    """The cross-entropy of all real tokens, summed."""
    logits = model(src, tgt[:, :-1])  # (batch, tgt_len - 1, vocab)
    return nn.functional.cross_entropy(
        logits.flatten(0, 1), tgt[:, 1:].flatten(), ignore_index=PAD, reduction="sum"
    )


def gradients_of(model: nn.Module, src: Tensor, tgt: Tensor, micro_batches: int = 1) -> tuple[Gradients, int]:
    """The gradients of the mean loss over the whole batch, and the most bytes that were saved at once.

    With several micro-batches, `backward` runs after each one: its gradients are added to those in `.grad`, and what
    it has saved is free again. Each is divided by the tokens of the whole batch, not by its own.
    """
    model.zero_grad()
    tokens = (tgt[:, 1:] != PAD).sum()
    with counting(model) as count:
        for part_src, part_tgt in zip(src.chunk(micro_batches), tgt.chunk(micro_batches)):
            (summed_loss(model, part_src, part_tgt) / tokens).backward()
    gradients = {name: parameter.grad.clone() for name, parameter in model.named_parameters()}
    return gradients, count.peak


@contextmanager
def checkpointed_layers(model: Transformer) -> Iterator[None]:
    """Keep only the input of each layer; `backward` runs the layer again to get the rest."""
    layers = [*model.encoder.layers, *model.decoder.layers]
    for layer in layers:
        layer.forward = again_in_backward(type(layer).forward.__get__(layer))
    try:
        yield
    finally:
        for layer in layers:
            del layer.forward  # the method of the class is back


def again_in_backward(forward: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *inputs: checkpoint(forward, *inputs, use_reentrant=False)


def largest_layer(model: Transformer, src: Tensor, tgt: Tensor) -> int:
    """The bytes that one layer saves, the largest: that much is there for a moment when it runs again."""
    sizes: list[int] = []
    layers = [*model.encoder.layers, *model.decoder.layers]
    for layer in layers:
        layer.forward = counted(type(layer).forward.__get__(layer), model, sizes)
    try:
        summed_loss(model, src, tgt)
    finally:
        for layer in layers:
            del layer.forward
    return max(sizes)


def counted(forward: Callable[..., Tensor], model: nn.Module, sizes: list[int]) -> Callable[..., Tensor]:
    def call(*inputs: Tensor) -> Tensor:
        with counting(model) as count:
            output = forward(*inputs)
        sizes.append(count.peak)
        return output

    return call


def example(num_layers: int = 4, batch: int = 32) -> tuple[Transformer, Tensor, Tensor]:
    """A model in float64, so that equal gradients can be seen to be equal, and a batch for it."""
    torch.manual_seed(0)
    size = len(VOCABULARY)
    model = Transformer(size, size, 64, num_heads=4, num_layers=num_layers, d_ff=256, dropout=0.0, max_len=40)
    src, tgt = encode(random_words(batch, torch.Generator().manual_seed(0)), 20)
    return model.double(), src, tgt


def apart(one: Gradients, other: Gradients) -> float:
    """The largest difference between two sets of gradients."""
    return max((one[name] - other[name]).abs().max().item() for name in one)


def show_memory() -> int:
    """Measure one step in four ways, and print the table."""
    model, src, tgt = example()
    plain, whole = gradients_of(model, src, tgt)
    print("One step, 4 + 4 layers, d_model 64, 32 words padded to 20 letters, float64\n")
    print(f"{'':38} saved for backward   gradients differ by")
    print(f"{'one batch of 32':38} {megabytes(whole)}")
    for parts in (2, 4, 8):
        gradients, peak = gradients_of(model, src, tgt, parts)
        print(
            f"{f'{parts} micro-batches of {32 // parts}':38} {megabytes(peak)}   {apart(plain, gradients):16.0e}"
        )
    with checkpointed_layers(model):
        gradients, peak = gradients_of(model, src, tgt)
    print(f"{'checkpointing each layer':38} {megabytes(peak)}   {apart(plain, gradients):16.0e}")
    again = largest_layer(model, src, tgt)
    print(f"{'  while one layer runs again, up to':38} {megabytes(again)}")
    print("\nAccumulation costs no extra work; checkpointing runs each layer forward a second time.")
    print("Weights, gradients and Adam's two averages come on top and stay the same in every row.")
    return 0


def megabytes(size: int) -> str:
    return f"{size / 1e6:15.1f} MB"
