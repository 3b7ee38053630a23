"""Ready-made layers are found by reading the code and by running it; nothing else is taken for one."""

from __future__ import annotations

from pathlib import Path

import pytest
from bank import ROOT, STAGES, lay_submission

from grader.driver import Engine, Options
from grader.shortcuts import uses

FORBIDDEN = [
    "torch.nn.MultiheadAttention",
    "torch.nn.TransformerEncoderLayer",
    "torch.nn.functional.scaled_dot_product_attention",
    "torch.nn.functional.multi_head_attention_forward",
]

# ruff: noqa: E501

FOUND = {
    "plain": "import torch.nn.functional as F\ndef f(q): return F.scaled_dot_product_attention(q, q, q)\n",
    "from": "from torch.nn.functional import scaled_dot_product_attention as s\ndef f(q): return s(q, q, q)\n",
    "whole path": "import torch\ndef f(q): return torch.nn.functional.scaled_dot_product_attention(q, q, q)\n",
    "inside": "def f(q):\n    from torch import nn\n    return nn.MultiheadAttention(4, 2)(q, q, q)[0]\n",
    "deep path": "import torch.nn.modules.activation as a\ndef f(q): return a.MultiheadAttention(4, 2)\n",
    "getattr": "from torch import nn\ndef f(q): return getattr(nn, 'Multihead' + 'Attention')(4, 2)\n",
    "vars": "from torch import nn\ndef f(q): return vars(nn)['MultiheadAttention'](4, 2)\n",
    "ops": "import torch\ndef f(q): return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(q, q, q)\n",
    "C": "import torch\ndef f(q): return torch._C._nn.scaled_dot_product_attention(q, q, q)\n",
    "star": "from torch.nn import *\ndef f(q): return MultiheadAttention(4, 2)\n",
    "subclass": "from torch import nn\nclass f(nn.TransformerEncoderLayer):\n    pass\n",
    "renamed": "import torch.nn as nn\nA = nn\nB = A.MultiheadAttention\ndef f(q): return B(4, 2)\n",
    "helper": "from torch import nn\ndef g(): return nn.MultiheadAttention(4, 2)\ndef f(q): return g()(q, q, q)\n",
    "copy": "import inspect\nfrom torch import nn\ndef f(q): exec(inspect.getsource(nn.MultiheadAttention))\n",
    "import_module": "import importlib\ndef f(q): return importlib.import_module('torch.nn').MultiheadAttention(4, 2)\n",
    "dunder import": "def f(q): return __import__('torch.nn.functional').nn.MultiheadAttention(4, 2)\n",
    "on import": "from torch import nn\nlayer = nn.MultiheadAttention(4, 2)\ndef f(q): return layer(q, q, q)\n",
    "decorator": "from torch import nn\ndef f(q, layer=nn.MultiheadAttention(4, 2)): return layer(q, q, q)\n",
}

LEFT_ALONE = {
    "comment": "# nn.MultiheadAttention\ndef f(q): return q\n",
    "string": "def f(q):\n    'like torch.nn.MultiheadAttention, but by hand'\n    return 'nn.MultiheadAttention'\n",
    "own class": "class MultiheadAttention: pass\ndef f(q): return MultiheadAttention()\n",
    "own attribute": "class A:\n    def g(self): return self.scaled_dot_product_attention(1)\ndef f(q): return A()\n",
    "own name": "def scaled_dot_product_attention(q): return q\ndef f(q): return scaled_dot_product_attention(q)\n",
    "unused import": "from torch.nn import MultiheadAttention\ndef f(q): return q\n",
    "main guard": "from torch import nn\ndef f(q): return q\nif __name__ == '__main__':\n    nn.MultiheadAttention(4, 2)\n",
    "comparison that f never calls": "from torch import nn\ndef compare(): nn.MultiheadAttention(4, 2)\ndef f(q): return q\n",
    "isinstance": "from torch import nn\ndef f(q): return isinstance(q, nn.MultiheadAttention)\n",
    "annotation": "from torch import nn\ndef f(q: nn.MultiheadAttention) -> nn.MultiheadAttention: return q\n",
    "linear": "from torch import nn\ndef f(q): return nn.Linear(4, 2)(q)\n",
    "stage import": "from ..stage1_attention.attention import scaled_dot_product_attention\n"
    "def f(q): return scaled_dot_product_attention(q, q, q)\n",
}


@pytest.mark.parametrize("source", FOUND.values(), ids=FOUND.keys())
def test_a_shortcut_is_found(source: str) -> None:
    found = uses({"s/a.py": source}, "s/a.py", "f", FORBIDDEN)
    assert found
    line = source.splitlines()[found[0].line - 1]
    assert any(word in line for word in ("ttention", "EncoderLayer", "B(", "s(", "layer"))


@pytest.mark.parametrize("source", LEFT_ALONE.values(), ids=LEFT_ALONE.keys())
def test_nothing_else_is_taken_for_one(source: str) -> None:
    assert uses({"s/a.py": source}, "s/a.py", "f", FORBIDDEN) == []


def test_a_shortcut_in_a_module_beside_it_is_found() -> None:
    sources = {
        "s/a.py": "from .mine import g\ndef f(q): return g(q)\n",
        "s/mine.py": "from torch import nn\ndef g(q): return nn.MultiheadAttention(4, 2)\n",
    }
    assert [(use.file, use.line) for use in uses(sources, "s/a.py", "f", FORBIDDEN)] == [("s/mine.py", 2)]


BODY = "        query, key, value = self.w_q(x), self.w_k(x), self.w_v(x)  # each (batch, seq, d_k)\n"

AT_RUN_TIME = {
    "spelled backwards": "getattr(torch.nn.functional, 'noitnetta_tcudorp_tod_delacs'[::-1])(x, x, x)",
    "from the operators": "getattr(torch.ops.aten, 'noitnetta_tcudorp_tod_delacs'[::-1])(x, x, x)",
    "from C": "getattr(torch._C._nn, 'noitnetta_tcudorp_tod_delacs'[::-1])(x, x, x)",
    "a class": "getattr(nn, 'noitnettAdaehitluM'[::-1])(12, 3)",
    "a module path": "getattr(__import__('sys').modules['torch.nn.modules.activation'], 'noitnettAdaehitluM'[::-1])(12, 3)",
    "the function of the class": "getattr(nn.functional, 'drawrof_noitnetta_daeh_itlum'[::-1])()",
    "flexible": "getattr(torch.nn.attention.flex_attention, 'noitnetta_xelf'[::-1])(x, x, x)",
    "evaluated": "eval('nn.functional.scaled' + '_dot_product' + '_attention(x, x, x)')",
}


@pytest.mark.parametrize("expression", AT_RUN_TIME.values(), ids=AT_RUN_TIME.keys())
def test_a_shortcut_is_noticed_at_run_time(engine: Engine, tmp_path: Path, expression: str) -> None:
    stage = STAGES[0]
    source = (ROOT / "solutions" / stage.folder / "attention.py").read_text(encoding="utf-8")
    assert source.count(BODY) == 1
    source = source.replace(BODY, f"        {expression}\n{BODY}")
    result = engine.grade(
        stage,
        lay_submission(tmp_path, stage, {"attention.py": source}),
        Options(selection="SingleHeadAttention"),
    )
    statuses = {check.status for check in result.checks if check.exercise == "SingleHeadAttention"}
    assert "forbidden" in statuses
    assert "passed" not in statuses
    line = next(number for number, text in enumerate(source.splitlines(), 1) if expression in text)
    place = next(check.traceback[-1] for check in result.checks if check.status == "forbidden")
    assert (place.file, place.line) == (f"{stage.folder}/attention.py", line)


NORMS = {
    "one group": "nn.functional.group_norm(x.reshape(-1, x.shape[-1]), 1, self.weight, self.bias, self.eps)",
    "one group, a layer": "nn.GroupNorm(1, x.shape[-1])(x.reshape(-1, x.shape[-1]))",
    "one group, from C": "torch.group_norm(x.reshape(-1, x.shape[-1]), 1)",
    "one group, an operator": "getattr(torch.ops.aten, 'mron_puorg'[::-1])(x.reshape(-1, x.shape[-1]), 1)",
    "instances": "getattr(nn.functional, 'mron_ecnatsni'[::-1])(x)",
    "a batch of features": "getattr(torch, 'mron_hctab'[::-1])(x.reshape(-1, x.shape[-1]).T[None],"
    " None, None, None, None, True, 0.1, self.eps, False)",
    "written in Python": "__import__('torch._refs')._refs.native_layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)",
}


@pytest.mark.parametrize("expression", NORMS.values(), ids=NORMS.keys())
def test_a_layer_norm_is_not_another_norm_in_disguise(
    engine: Engine, tmp_path: Path, expression: str
) -> None:
    stage = STAGES[3]
    source = (ROOT / "solutions" / stage.folder / "encoder.py").read_text(encoding="utf-8")
    before, body = "class LayerNorm", "        d_model = x.size"
    position = source.index(body, source.index(before))
    source = f"{source[:position]}        {expression}\n{source[position:]}"
    result = engine.grade(
        stage,
        lay_submission(tmp_path, stage, {"encoder.py": source}),
        Options(selection="LayerNorm", earlier="reference"),
    )
    statuses = {check.status for check in result.checks if check.exercise == "LayerNorm"}
    assert "forbidden" in statuses
    assert (
        "passed" not in statuses or result.score <= 3
    )  # what only makes the layer, or refuses bad arguments
