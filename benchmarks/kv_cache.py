"""How fast a GPT writes with a KV cache: beside `transformers`, beside itself without one, and far into a text.

One model (6 layers, d_model 256), one thread, batch 1, the likeliest token each time. The contestants have the same
weights, must write the same text, and take turns in one process; the median of the ratios counts, so that a busy
machine does not decide. Exits with 1 when a ratio misses its limit.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
import transformers
from torch import Tensor

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from solutions.stage7_gpt.generation import generate
from solutions.stage7_gpt.gpt import GPT, GPTConfig, load_gpt2
from solutions.stage8_kv_cache.cached_decoding import generate_cached

VOCAB, BLOCK_SIZE, D_MODEL, HEADS, LAYERS = 1000, 1024, 256, 8, 6
PROMPT, NEW = 8, 256

FASTER_THAN_TRANSFORMERS = 1.7
FASTER_THAN_UNCACHED = 4.0
SLOWER_FAR_IN = 1.5
NEAR, FAR, AROUND = 10, 1000, 8  # positions, and how many steps on both sides of them are timed

Write = Callable[[], Tensor]


def models() -> tuple[GPT, transformers.GPT2LMHeadModel]:
    """The solution's GPT and GPT-2 of `transformers`, with the same random weights."""
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=VOCAB,
        n_positions=BLOCK_SIZE,
        n_embd=D_MODEL,
        n_layer=LAYERS,
        n_head=HEADS,
        bos_token_id=None,
        eos_token_id=None,
    )
    theirs = transformers.GPT2LMHeadModel(config).eval()
    own = GPT(GPTConfig(VOCAB, BLOCK_SIZE, D_MODEL, HEADS, LAYERS))
    load_gpt2(own, theirs.state_dict())
    return own, theirs


def seconds(write: Write) -> float:
    """The computing time of one text."""
    start = time.process_time()
    write()
    return time.process_time() - start


def in_turns(first: Write, second: Write, rounds: int) -> tuple[float, float, float]:
    """Median seconds of both, and the median of second / first."""
    times: list[list[float]] = [[], []]
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            times[which].append(seconds((first, second)[which]))
    ratios = [other / own for own, other in zip(*times)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def near_and_far(model: GPT, rounds: int) -> tuple[float, float, float]:
    """Median seconds of a token around NEAR and around FAR, and the median of their ratios."""
    clock: list[float] = []
    times: list[list[float]] = [[], []]
    hook = model.token_embed.register_forward_hook(lambda *_: clock.append(time.process_time()))
    for number in range(rounds):
        for which in (0, 1) if number % 2 else (1, 0):
            prompt = torch.ones(1, (NEAR, FAR)[which] - AROUND, dtype=torch.int64)
            clock.clear()
            generate_cached(
                model, prompt, 2 * AROUND + 2, temperature=0
            )  # one more: the first reads the prompt
            times[which].append(statistics.median(after - before for before, after in pairwise(clock)))
    hook.remove()
    ratios = [far / near for near, far in zip(*times)]
    return statistics.median(times[0]), statistics.median(times[1]), statistics.median(ratios)


def main() -> int:
    """Measure, print one line for each comparison, and say whether every ratio is within its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7, help="texts of each contestant (default: 7)")
    parser.add_argument("--quick", action="store_true", help="three texts of each")
    options = parser.parse_args()
    rounds = 3 if options.quick else options.rounds

    torch.set_num_threads(1)
    own, theirs = models()
    prompt = torch.randint(VOCAB, (1, PROMPT), generator=torch.Generator().manual_seed(0))

    def cached() -> Tensor:
        return generate_cached(own, prompt, NEW, temperature=0)

    def uncached() -> Tensor:
        return generate(own, prompt, NEW, temperature=0)

    def transformers_generate() -> Tensor:
        return theirs.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=NEW,
            do_sample=False,
            use_cache=True,
        )

    print(f"A GPT with {LAYERS} layers, d_model {D_MODEL}, {HEADS} heads, batch 1, writes {NEW} tokens:")
    if not torch.equal(cached(), transformers_generate()):
        print("  the solution and transformers write DIFFERENT TEXTS")
        return 1
    own_time, other_time, ratio = in_turns(cached, transformers_generate, rounds)
    line = f"  cached {per_token(own_time)}, transformers {per_token(other_time)}"
    within = told(line, ratio, ratio >= FASTER_THAN_TRANSFORMERS, f"at least {FASTER_THAN_TRANSFORMERS}")

    own_time, other_time, ratio = in_turns(cached, uncached, min(rounds, 3))
    line = f"  cached {per_token(own_time)}, without a cache {per_token(other_time)}"
    within &= told(line, ratio, ratio >= FASTER_THAN_UNCACHED, f"at least {FASTER_THAN_UNCACHED}")

    near, far, ratio = near_and_far(own, 3 * rounds)
    line = f"  at position {NEAR} {near * 1000:.2f} ms a token, at position {FAR} {far * 1000:.2f} ms"
    within &= told(line, ratio, ratio <= SLOWER_FAR_IN, f"at most {SLOWER_FAR_IN}")
    return 0 if within else 1


def per_token(seconds_of_a_text: float) -> str:
    return f"{seconds_of_a_text / NEW * 1000:.2f} ms a token"


def told(line: str, ratio: float, within: bool, limit: str) -> bool:
    print(f"{line}   {ratio:.2f} ({limit}){'' if within else '  MISSES ITS LIMIT'}", flush=True)
    return within


if __name__ == "__main__":
    sys.exit(main())
