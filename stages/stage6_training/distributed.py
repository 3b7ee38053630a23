"""Data-parallel training: several processes, each with its share of every batch, and one model.

Given, not an exercise. `torchrun --nproc-per-node 2 -m stages.stage6_training.demo train` starts two processes
(ranks); PyTorch's `DistributedDataParallel` keeps their weights equal by summing their gradients.
"""

import os
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .settings import BadInput

PAD_ID = 0


class Ranks:
    """The processes that train together: how many there are, and which one this is. Alone, it is 0 of 1."""

    def __init__(self, device: str) -> None:
        """Join the others if torchrun has started this process. `device` becomes this rank's own."""
        self.size = int(os.environ.get("WORLD_SIZE", 1))
        self.rank = int(os.environ.get("RANK", 0))
        self.together = "RANK" in os.environ and "MASTER_ADDR" in os.environ
        self.device = torch.device(device)
        self.weight = 1.0  # what this rank's mean loss counts for in the step that is being made
        if self.device.type == "cuda" and self.together and self.device.index is None:
            local = int(os.environ.get("LOCAL_RANK", 0))
            if local >= torch.cuda.device_count():
                raise BadInput(
                    f"rank {self.rank} finds no GPU of its own among {torch.cuda.device_count()}; "
                    "give torchrun a smaller --nproc-per-node, or this demo --device cpu"
                )
            self.device = torch.device("cuda", local)
            torch.cuda.set_device(self.device)
        if self.together:
            dist.init_process_group("nccl" if self.device.type == "cuda" else "gloo")

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def parallel(self, model: nn.Module) -> nn.Module:
        """Wrap a model so that all ranks make the same step: that of one process with the whole batch."""
        if not self.together:
            return model
        wrapped = DistributedDataParallel(model, broadcast_buffers=False)
        if hasattr(model, "pad_id"):
            wrapped.pad_id = model.pad_id  # `train_epoch` asks for it
        wrapped.register_comm_hook(self, _weighted_sum)
        return wrapped

    def share(self, group: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Take this rank's rows of the batches of one step, and set its weight: its part of the real targets.

        Plain averaging over ranks would be a mean of means: a rank with short sentences would count too much.
        All ranks have to go backward equally often, so one without a row of its own takes another's: with
        nothing but padding as its target, or, where that is all it has in this step, with the weight 0.
        """
        if self.size == 1:
            return group
        mine = [(src[self.rank :: self.size], tgt[self.rank :: self.size]) for src, tgt in group]
        tokens = sum(_real_targets(tgt) for _, tgt in mine)
        self.weight = tokens / sum(_real_targets(tgt) for _, tgt in group)
        if tokens == 0:
            return [(src[:1], tgt[:1]) for src, tgt in group]
        return [
            own if len(own[0]) else (src[:1], torch.full_like(tgt[:1], PAD_ID))
            for own, (src, tgt) in zip(mine, group)
        ]

    def mean(self, loss: float) -> float:
        """Average the losses that the ranks have of one step, each by its weight."""
        if not self.together:
            return loss
        total = torch.tensor(loss * self.weight if self.weight else 0.0, dtype=torch.float64)
        total = total.to(self.device)
        dist.all_reduce(total)
        return total.item()

    def from_first(self, value: Any) -> Any:
        """Give every rank the value that the first one has."""
        if not self.together:
            return value
        box = [value]
        dist.broadcast_object_list(box, src=0, device=self.device)
        return box[0]

    def leave(self) -> None:
        if self.together and dist.is_initialized():
            dist.destroy_process_group()


def _weighted_sum(ranks: Ranks, bucket: dist.GradBucket) -> torch.futures.Future[Tensor]:
    """Replace DDP's own mean over ranks; it calls this for each bucket of gradients as soon as it is full."""
    gradients = bucket.buffer().mul_(ranks.weight)
    return dist.all_reduce(gradients, async_op=True).get_future().then(lambda future: future.value()[0])


def _real_targets(tgt: Tensor) -> int:
    return int((tgt[:, 1:] != PAD_ID).sum())
