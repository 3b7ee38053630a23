# Queries, keys and values in one product, rotary positions as complex numbers made on the fly, one norm class for both.
import math
from dataclasses import dataclass
from typing import Optional

import torch
import torch.nn.functional as F
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, d_model, eps=1e-6):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d_model))
        self.eps = eps

    def forward(self, x):
        return x * self.weight / (torch.linalg.vector_norm(x, dim=-1, keepdim=True) ** 2 / x.shape[-1] + self.eps) ** 0.5


class SwiGLU(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.w_gate = nn.Linear(d_model, d_ff, bias=False)
        self.w_up = nn.Linear(d_model, d_ff, bias=False)
        self.w_down = nn.Linear(d_ff, d_model, bias=False)

    def forward(self, x):
        both = F.linear(x, torch.cat([self.w_gate.weight, self.w_up.weight]))
        gate, up = both.chunk(2, dim=-1)
        return self.w_down(gate * torch.sigmoid(gate) * up)


@dataclass(frozen=True)
class GPTConfig:
    vocab_size: int
    block_size: int
    d_model: int
    num_heads: int
    num_layers: int
    d_ff: Optional[int] = None
    dropout: float = 0.0
    position: str = "learned"
    norm: str = "layer"
    mlp: str = "gelu"
    bias: bool = True
    tie_weights: bool = True

    def __post_init__(self):
        if self.d_ff is None:
            object.__setattr__(self, "d_ff", 4 * self.d_model)
        problems = []
        for name in ("vocab_size", "block_size", "d_model", "num_heads", "num_layers", "d_ff"):
            if getattr(self, name) <= 0:
                problems.append(f"{name}={getattr(self, name)} is not positive")
        if self.num_heads > 0 and self.d_model % self.num_heads:
            problems.append(f"d_model={self.d_model} is no multiple of num_heads={self.num_heads}")
        elif self.num_heads > 0 and self.position == "rotary" and self.d_model // self.num_heads % 2:
            problems.append(f"rotary needs an even head size, not {self.d_model // self.num_heads}")
        if self.dropout < 0 or self.dropout > 1:
            problems.append(f"dropout={self.dropout} is no probability")
        for name, allowed in {"position": "learned rotary", "norm": "layer rms", "mlp": "gelu swiglu"}.items():
            if getattr(self, name) not in allowed.split():
                problems.append(f"{name}={getattr(self, name)} is none of {allowed}")
        if problems:
            raise ValueError("; ".join(problems))


class CausalAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        for name in ("w_q", "w_k", "w_v", "w_o"):
            setattr(self, name, nn.Linear(config.d_model, config.d_model, bias=config.bias))
        self.config = config

    def forward(self, x):
        batch, seq, d_model = x.shape
        heads = self.config.num_heads
        three = [self.w_q, self.w_k, self.w_v]
        weight = torch.cat([w.weight for w in three])
        bias = torch.cat([w.bias for w in three]) if self.config.bias else None
        qkv = F.linear(x, weight, bias).view(batch, seq, 3, heads, d_model // heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        if self.config.position == "rotary":
            q, k = self.turn(q), self.turn(k)
        scores = torch.einsum("bhqd,bhkd->bhqk", q, k) * (d_model // heads) ** -0.5
        later = torch.ones(seq, seq, dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(later, float("-inf")), dim=-1)
        weights = F.dropout(weights, self.config.dropout, self.training)
        return self.w_o((weights @ v).permute(0, 2, 1, 3).reshape(batch, seq, d_model))

    def turn(self, x):
        half = x.shape[-1] // 2
        frequency = 1 / 10000 ** (torch.arange(half, device=x.device, dtype=x.dtype) / half)
        angle = torch.outer(torch.arange(x.shape[-2], device=x.device, dtype=x.dtype), frequency)
        number = torch.complex(x[..., :half], x[..., half:]) * torch.polar(torch.ones_like(angle), angle)
        return torch.cat([number.real, number.imag], dim=-1)


class MLP(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.linear1 = nn.Linear(config.d_model, config.d_ff, bias=config.bias)
        self.linear2 = nn.Linear(config.d_ff, config.d_model, bias=config.bias)

    def forward(self, x):
        x = self.linear1(x)
        return self.linear2(0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def make_norm(config):
    if config.norm == "rms":
        return RMSNorm(config.d_model)
    return nn.LayerNorm(config.d_model, bias=config.bias)


class Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.norm1, self.norm2 = make_norm(config), make_norm(config)
        self.attn = CausalAttention(config)
        self.mlp = SwiGLU(config.d_model, config.d_ff) if config.mlp == "swiglu" else MLP(config)
        self.p = config.dropout

    def forward(self, x):
        for norm, branch in ((self.norm1, self.attn), (self.norm2, self.mlp)):
            x = x + F.dropout(branch(norm(x)), self.p, self.training)
        return x


class Positions(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embedding = nn.Embedding(config.block_size, config.d_model)

    def forward(self, x):
        return x + self.embedding.weight[: x.shape[1]]


class GPT(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.token_embed = nn.Embedding(config.vocab_size, config.d_model)
        self.positions = Positions(config) if config.position == "learned" else None
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.num_layers)])
        self.norm = make_norm(config)
        self.head = nn.Linear(config.d_model, config.vocab_size, bias=False)
        if config.tie_weights:
            self.head.weight = self.token_embed.weight
        self.apply(self.first_values)

    def first_values(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            module.weight.data.normal_(0, 0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            module.bias.data.zero_()
        if isinstance(module, Block):  # apply() comes to a block after its parts
            for part in (module.attn.w_o, getattr(module.mlp, "linear2", None) or module.mlp.w_down):
                part.weight.data.div_(math.sqrt(2 * self.config.num_layers))

    def forward(self, tokens, targets=None):
        seq = tokens.shape[1]
        if seq > self.config.block_size:
            raise ValueError(f"sequence of {seq} tokens, block_size {self.config.block_size}")
        x = F.embedding(tokens, self.token_embed.weight)
        if self.positions is not None:
            x = self.positions(x)
        x = F.dropout(x, self.config.dropout, self.training)
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.head.weight)
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.transpose(1, 2), targets)


def load_gpt2(model, state_dict):
    if model.positions is None or model.config.norm != "layer" or model.config.mlp != "gelu" or not model.config.bias:
        raise ValueError(f"{model.config} is not built like GPT-2")
    weights = {}
    for name, value in state_dict.items():
        name = name.replace("transformer.", "")
        if name.endswith(".attn.bias") or name.endswith("masked_bias"):
            continue
        if ".c_" in name and name.endswith("weight"):
            value = value.t()
        for theirs, ours in (
            ("wte.", "token_embed."),
            ("wpe.", "positions.embedding."),
            ("ln_f.", "norm."),
            ("lm_head.", "head."),
            ("h.", "blocks."),
        ):
            if name.startswith(theirs):
                name = ours + name[len(theirs) :]
                break
        name = name.replace("ln_1", "norm1").replace("ln_2", "norm2")
        name = name.replace("mlp.c_fc", "mlp.linear1").replace("mlp.c_proj", "mlp.linear2")
        name = name.replace("attn.c_proj", "attn.w_o")
        if "c_attn" in name:
            for each, part in zip(("w_q", "w_k", "w_v"), value.split(model.config.d_model, dim=0)):
                weights[name.replace("c_attn", each)] = part
        else:
            weights[name] = value
    weights.setdefault("head.weight", weights.get("token_embed.weight"))
    own = model.state_dict()
    if weights.keys() != own.keys():
        raise ValueError(f"names that do not fit: {sorted(weights.keys() ^ own.keys())}")
    for name, value in own.items():
        if value.shape != weights[name].shape:
            raise ValueError(f"{name}: {list(weights[name].shape)} given, {list(value.shape)} in the model")
    model.load_state_dict(weights)
    return model
