"""Generation: a trained GPT goes on with a text, token by token."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def filter_logits(
    logits: Float[Tensor, "... vocab_size"],
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Float[Tensor, "... vocab_size"]:
    """Make logits out of logits: sharper or flatter ones, in which unlikely tokens are minus infinity.

    Three things are done to each row, in this order; what an earlier one has left out stays out, and counts for
    nothing in a later one:

    - **temperature**: all logits are divided by it. Below 1 the likely tokens become still likelier.
    - **top_k**: only the k largest logits stay. Tokens that are equal to the k-th largest stay too. k may be larger
      than the vocabulary; then all stay.
    - **top_p**: only the smallest set of tokens whose probabilities (the softmax of what is left by now) together
      reach p stays, the likeliest first. So the token with which the sum reaches p is in the set, and the likeliest
      token always is.

    None switches `top_k` and `top_p` off. `logits` are not modified; the result has their shape and dtype, and its
    softmax is the distribution to draw from.

    Raises `ValueError`, naming the value and what is allowed: `temperature` above 0 (generating at temperature 0
    needs no filter), `top_k` at least 1, `top_p` above 0 and at most 1.

    Source: "Hierarchical Neural Story Generation" (Fan et al., 2018), section 5.4, for top-k; "The Curious Case of
    Neural Text Degeneration" (Holtzman et al., 2020), section 3.1, for top-p. The kept sets are those of
    `transformers`.
    """
    raise NotImplementedError


def generate(
    model: nn.Module,
    prompt: Int[Tensor, "batch prompt_len"],
    max_new_tokens: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Int[Tensor, "batch prompt_len+max_new_tokens"]:
    """Go on with every row of `prompt` by `max_new_tokens` tokens; return prompt and new tokens together.

    `model` is a `GPT`, or has its `config.block_size` and, called with token ids, returns a tuple with the logits of
    every position in front. Each new token is drawn from softmax(`filter_logits(logits of the last position)`), is put
    behind the text, and is read with it for the next. `temperature=0` means no chance at all: the largest logit each
    time.

    - **The window.** The model reads the last `block_size` tokens of the text where there are more. The text itself,
      and what is returned, keeps all.
    - **Chance.** All random numbers come from `generator`, so that two generators with the same seed give the same
      text; None means PyTorch's own. `torch.multinomial` draws.
    - **Eval mode**, and no graph for gradients. Afterwards the model is in the mode, training or eval, that it was in
      before.

    `prompt` is not modified. With `max_new_tokens=0` the result is the prompt.

    Raises `ValueError`, naming the value and what is allowed: a prompt of at least one token, `max_new_tokens` and
    `temperature` at least 0, and the ranges of `filter_logits`, whose settings are looked at also at temperature 0.
    """
    raise NotImplementedError
