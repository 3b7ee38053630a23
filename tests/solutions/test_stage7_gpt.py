"""The solution of stage 7 against `transformers`: GPT-2 and Llama."""

from __future__ import annotations

import copy
import itertools
import math
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from solutions.stage7_gpt.generation import generate
from solutions.stage7_gpt.gpt import GPT, Block, GPTConfig, RMSNorm, SwiGLU, load_gpt2

BATCH, SEQ, VOCAB, BLOCK, D_MODEL, HEADS, LAYERS, D_FF = 2, 9, 37, 16, 24, 3, 3, 40
LLAMA = {"position": "rotary", "norm": "rms", "mlp": "swiglu", "bias": False, "d_ff": D_FF}


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(7)


def config(**changes: object) -> GPTConfig:
    sizes = {"vocab_size": VOCAB, "block_size": BLOCK, "d_model": D_MODEL, "num_heads": HEADS}
    return GPTConfig(**(sizes | {"num_layers": LAYERS} | changes))


def tokens(*shape: int) -> Tensor:
    return torch.randint(VOCAB, shape)


def randomised(model: nn.Module) -> nn.Module:
    """Every parameter random, biases and norms too."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.3 * torch.randn_like(parameter)
    return model.eval()


def gpt2(**changes: object) -> GPT2LMHeadModel:
    sizes = {"n_embd": D_MODEL, "n_head": HEADS, "n_layer": LAYERS, "n_positions": BLOCK, "vocab_size": VOCAB}
    dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    settings = GPT2Config(
        **(sizes | dropout | changes), attn_implementation="eager", bos_token_id=0, eos_token_id=None
    )
    return randomised(GPT2LMHeadModel(settings))


def llama(tied: bool) -> LlamaForCausalLM:
    settings = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        max_position_embeddings=BLOCK,
        tie_word_embeddings=tied,
        attn_implementation="eager",
    )
    return randomised(LlamaForCausalLM(settings))


def from_llama(state: dict[str, Tensor]) -> dict[str, Tensor]:
    """Llama's weights under the names of this course.

    In Hugging Face's files queries and keys lie half-split already, as `apply_rotary` turns them. In Meta's own files
    they lie in neighbouring pairs, and the rows of w_q and w_k would have to be permuted.
    """
    names = {
        "model.embed_tokens": "token_embed",
        "model.layers": "blocks",
        "input_layernorm": "norm1",
        "post_attention_layernorm": "norm2",
        "self_attn": "attn",
        "q_proj": "w_q",
        "k_proj": "w_k",
        "v_proj": "w_v",
        "o_proj": "w_o",
        "gate_proj": "w_gate",
        "up_proj": "w_up",
        "down_proj": "w_down",
        "model.norm": "norm",
        "lm_head": "head",
    }
    renamed = {}
    for name, value in state.items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        renamed[name] = value
    return renamed


# GPT-2


@pytest.mark.parametrize("length", [1, SEQ, BLOCK])
@pytest.mark.parametrize("tied", [True, False])
def test_the_logits_are_those_of_gpt2(length: int, tied: bool) -> None:
    theirs = gpt2(tie_word_embeddings=tied)
    model = GPT(config(tie_weights=tied)).eval()
    load_gpt2(model, theirs.state_dict())
    ids = tokens(BATCH, length)
    torch.testing.assert_close(model(ids)[0], theirs(ids).logits, atol=1e-4, rtol=1e-4)


def test_a_bare_model_with_old_masks_is_taken() -> None:
    theirs = gpt2()
    state = dict(theirs.transformer.state_dict())
    state["h.1.attn.bias"] = torch.ones(1, 1, BLOCK, BLOCK).tril()
    state["h.1.attn.masked_bias"] = torch.tensor(-1e4)
    model = GPT(config()).eval()
    load_gpt2(model, state)
    ids = tokens(BATCH, SEQ)
    torch.testing.assert_close(model(ids)[0], theirs(ids).logits, atol=1e-4, rtol=1e-4)
    assert model.head.weight is model.token_embed.weight


def test_loss_and_gradients_are_those_of_gpt2() -> None:
    theirs, model = gpt2(), GPT(config()).eval()
    load_gpt2(model, theirs.state_dict())
    ids = tokens(BATCH, SEQ + 1)
    _, loss = model(ids[:, :-1], ids[:, 1:])
    their_loss = theirs(ids, labels=ids).loss
    torch.testing.assert_close(loss, their_loss)
    loss.backward()
    their_loss.backward()
    torch.testing.assert_close(
        model.blocks[0].mlp.linear1.weight.grad, theirs.transformer.h[0].mlp.c_fc.weight.grad.T
    )
    torch.testing.assert_close(model.token_embed.weight.grad, theirs.transformer.wte.weight.grad)


def test_greedy_text_is_that_of_transformers() -> None:
    theirs, model = gpt2().double(), GPT(config()).double()
    load_gpt2(model, theirs.state_dict())
    prompt = tokens(BATCH, 4)
    text = generate(model, prompt, 10, temperature=0)
    expected = theirs.generate(
        prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=10, do_sample=False, pad_token_id=0
    )
    torch.testing.assert_close(text, expected)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vocab_size": VOCAB + 1}, [str(VOCAB), str(VOCAB + 1), "token_embed"]),
        ({"n_positions": BLOCK - 1}, [str(BLOCK), str(BLOCK - 1)]),
        ({"n_layer": LAYERS - 1}, ["lacks h.2."]),
        ({"n_layer": LAYERS + 1}, ["h.3."]),
        ({"n_inner": 50}, ["(96, 24)", "(50, 24)"]),
    ],
)
def test_another_shape_is_refused_and_changes_nothing(changes: dict[str, int], words: list[str]) -> None:
    model = randomised(GPT(config()))
    before = copy.deepcopy(model.state_dict())
    with pytest.raises(ValueError) as error:
        load_gpt2(model, gpt2(**changes).state_dict())
    assert all(word in str(error.value) for word in words)
    torch.testing.assert_close(dict(model.state_dict()), dict(before), rtol=0, atol=0)


def test_weights_of_another_build_are_refused() -> None:
    with pytest.raises(ValueError, match="position='rotary'"):
        load_gpt2(GPT(config(position="rotary", d_model=24)), gpt2().state_dict())
    with pytest.raises(ValueError, match="tie_weights=False"):
        load_gpt2(GPT(config()), gpt2(tie_word_embeddings=False).state_dict())
    with pytest.raises(ValueError, match="lacks wte.weight"):
        load_gpt2(GPT(config()), {})


# Llama


@pytest.mark.parametrize("tied", [True, False])
def test_the_logits_are_those_of_llama(tied: bool) -> None:
    theirs, model = llama(tied), GPT(config(**LLAMA, tie_weights=tied)).eval()
    model.load_state_dict(from_llama(theirs.state_dict()))
    ids = tokens(BATCH, BLOCK)
    torch.testing.assert_close(model(ids)[0], theirs(ids).logits, atol=1e-4, rtol=1e-4)


def test_rms_norm_is_that_of_pytorch() -> None:
    norm, theirs = randomised(RMSNorm(D_MODEL)), nn.RMSNorm(D_MODEL, eps=1e-6)
    theirs.load_state_dict(norm.state_dict())
    x = 3 * torch.randn(BATCH, SEQ, D_MODEL)
    for dtype in (torch.float64, torch.float32):
        torch.testing.assert_close(norm.to(dtype)(x.to(dtype)), theirs.to(dtype)(x.to(dtype)))


def test_rms_norm_does_not_overflow_in_half_precision() -> None:
    x = torch.tensor([[300.0, -400.0]], dtype=torch.float16)
    normed = RMSNorm(2).half()(x)
    assert normed.dtype == torch.float16
    torch.testing.assert_close(normed.float(), x.float() / math.sqrt(125_000), atol=1e-3, rtol=1e-3)


def test_swiglu_without_a_gate_lets_nothing_through() -> None:
    network = SwiGLU(D_MODEL, D_FF)
    nn.init.zeros_(network.w_gate.weight)
    assert not network(torch.randn(BATCH, SEQ, D_MODEL)).any()


# The model as such


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({name: 0}, [name, "0", "at least 1"])
        for name in ("vocab_size", "block_size", "d_model", "num_heads", "num_layers", "d_ff")
    ]
    + [
        ({"num_heads": 5}, ["24", "5"]),
        ({"dropout": 1.0}, ["1.0", "0 to below 1"]),
        ({"dropout": -0.1}, ["-0.1"]),
        ({"dropout": math.nan}, ["nan"]),
        ({"position": "sinusoidal"}, ["sinusoidal", "learned", "rotary"]),
        ({"norm": "batch"}, ["batch", "layer", "rms"]),
        ({"mlp": "relu"}, ["relu", "gelu", "swiglu"]),
        ({"position": "rotary", "d_model": 9}, ["9 / 3 = 3", "even"]),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ValueError) as error:
        config(**changes)
    assert all(word in str(error.value) for word in words)


def test_a_config_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        config().dropout = 0.5


@pytest.mark.parametrize("changes", [{}, LLAMA], ids=["gpt-2", "llama"])
def test_the_first_loss_is_that_of_guessing(changes: dict[str, object]) -> None:
    model = GPT(config(vocab_size=1000, d_model=96, **changes))
    ids = torch.randint(1000, (4, BLOCK))
    assert abs(model(ids, ids.roll(1))[1].item() - math.log(1000)) < 0.1


def test_the_ends_of_the_branches_start_smaller() -> None:
    for kind in ({"d_model": 120}, {**LLAMA, "d_model": 120, "d_ff": 300}):
        for name, parameter in GPT(config(**kind, num_layers=8)).named_parameters():
            if parameter.dim() == 2:
                ends = name.endswith(("w_o.weight", "linear2.weight", "w_down.weight"))
                assert parameter.std().item() == pytest.approx(0.005 if ends else 0.02, rel=0.1), name


@pytest.mark.parametrize("tied", [True, False])
def test_tied_weights_stay_one_parameter(tied: bool) -> None:
    model = copy.deepcopy(GPT(config(tie_weights=tied)).double())
    assert (model.head.weight is model.token_embed.weight) == tied
    torch.optim.SGD(model.parameters(), lr=1.0).step()
    assert (model.head.weight is model.token_embed.weight) == tied


@pytest.mark.parametrize(
    ("position", "norm", "mlp", "bias"),
    list(itertools.product(["learned", "rotary"], ["layer", "rms"], ["gelu", "swiglu"], [True, False])),
)
def test_every_mixture_is_causal_and_trains(position: str, norm: str, mlp: str, bias: bool) -> None:
    model = randomised(GPT(config(position=position, norm=norm, mlp=mlp, bias=bias)).double())
    ids = tokens(BATCH, SEQ)
    changed = ids.clone()
    changed[:, 5:] = (ids[:, 5:] + 1) % VOCAB
    logits, loss = model(ids, ids)
    moved = model(changed)[0]
    torch.testing.assert_close(moved[:, :5], logits[:, :5])
    assert not torch.isclose(moved[:, 5:], logits[:, 5:]).all(-1).any()
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert all(bias or not name.endswith("bias") for name, _ in model.named_parameters())
    assert not [name for name in model.state_dict() if "cos" in name or "sin" in name]


def test_too_many_tokens_are_refused() -> None:
    for changes in ({}, LLAMA):
        with pytest.raises(ValueError, match=f"{BLOCK + 1} tokens .* block_size = {BLOCK}"):
            GPT(config(**changes))(tokens(1, BLOCK + 1))


def test_dropout_acts_in_training_only() -> None:
    model = GPT(config(dropout=0.5))
    ids = tokens(BATCH, SEQ)
    assert not torch.equal(model(ids)[0], model(ids)[0])
    model.eval()
    assert torch.equal(model(ids)[0], model(ids)[0])
    silent = GPT(config())
    assert torch.equal(silent(ids)[0], silent.eval()(ids)[0])


def test_a_block_leaves_its_input_alone() -> None:
    x = torch.randn(BATCH, SEQ, D_MODEL)
    before = x.clone()
    Block(config())(x)
    assert torch.equal(x, before)
