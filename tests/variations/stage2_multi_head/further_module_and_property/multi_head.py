# Unusual: a further module beside the file, a base class, num_heads as a property, and the layer calls submodules.
from torch import nn

from ..stage1_attention.attention import scaled_dot_product_attention
from .head_count import checked_head_width


def split_heads(x, num_heads):
    width = checked_head_width(x.shape[-1], num_heads)
    return x.reshape(x.shape[0], x.shape[1], num_heads, width).transpose(1, 2).contiguous()


def merge_heads(x):
    return x.transpose(1, 2).contiguous().view(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


class Projections(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.w_q = nn.Linear(d_model, d_model)
        self.w_k = nn.Linear(d_model, d_model)
        self.w_v = nn.Linear(d_model, d_model)
        self.w_o = nn.Linear(d_model, d_model)


class MultiHeadAttention(Projections):
    def __init__(self, d_model, num_heads, dropout=0.0, **unused):
        self_width = checked_head_width(d_model, num_heads)
        super().__init__(d_model)
        self.width = self_width
        self.drop_weights = nn.Dropout(dropout) if dropout else nn.Identity()

    @property
    def num_heads(self):
        return self.w_q.out_features // self.width

    def attend(self, query, key, value, mask):
        weights = scaled_dot_product_attention(query, key, value, mask)[1]
        return self.drop_weights(weights) @ value, weights

    def forward(self, query, key, value, mask=None, **unused):
        parts = [split_heads(w(x), self.num_heads) for w, x in self.pairs(query, key, value)]
        heads, weights = self.attend(*parts, mask)
        return self.w_o(merge_heads(heads)), weights

    def pairs(self, query, key, value):
        return (self.w_q, query), (self.w_k, key), (self.w_v, value)
