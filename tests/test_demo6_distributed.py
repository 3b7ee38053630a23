"""Two processes that train together make the steps of one process with the same global batch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bank import ROOT
from torch import nn

from solutions.stage6_training import checkpoint, demo
from solutions.stage6_training.distributed import Ranks

# Sentences of very different length, and seven of them: the shares are unequal, and one is empty.
TRAIN = """\
你好！\tHello!
我喜欢喝茶，也喜欢喝水。\tI like to drink tea and I also like to drink water.
他很忙。\tHe is busy.
我们明天早上去学校。\tWe are going to school tomorrow morning.
谢谢！\tThanks!
她喝水。\tShe drinks water.
早！\tMorning!
"""
VALID = "我喝茶。\tI drink tea.\n他喝水。\tHe drinks water.\n"
OPTIONS = (
    "--epochs 3 --d-model 16 --num-heads 2 --num-layers 1 --d-ff 16 --warmup 30 --dropout 0 "
    "--batch-size 2 --accumulate 2"
).split()


def test_two_processes_train_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for part, text in (("train", TRAIN), ("valid", VALID), ("test", VALID)):
        (corpus / f"{part}.tsv").write_text(text, encoding="utf-8")
    options = ["--corpus", str(corpus), *OPTIONS]
    monkeypatch.setattr(demo, "draw_curves", lambda path, history: None)
    assert demo.main([*options, "--out", str(tmp_path / "one")]) == 0

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = f"-m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 --master-port {port}"
    module = ["-m", "solutions.stage6_training.demo", "train", *options, "--out", str(tmp_path / "two")]
    done = subprocess.run(
        [sys.executable, *launch.split(), *module],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("epoch 3/3") == 1  # the first process speaks, the other is silent

    one, two = (checkpoint.load(tmp_path / name / demo.CHECKPOINT) for name in ("one", "two"))
    for alone, together in zip(one.history, two.history, strict=True):
        for loss in ("train_loss", "valid_loss"):
            assert together[loss] == pytest.approx(alone[loss], rel=2e-5)
        assert together["steps"] == alone["steps"]
    # The biases of the keys move every score of a query alike, so their gradient is rounding and no more; Adam
    # makes steps of ordinary size of it.
    names = [name for name in one.weights if not name.endswith("w_k.bias")]
    torch.testing.assert_close(
        {name: two.weights[name] for name in names},
        {name: one.weights[name] for name in names},
        rtol=1e-3,
        atol=1e-3,
    )


def test_shares_are_weighted_by_their_real_tokens_and_none_is_empty() -> None:
    ranks = Ranks("cpu")
    ranks.size = 2
    src = torch.ones(3, 4, dtype=torch.int64)
    tgt = torch.tensor([[1, 4, 5, 2], [1, 2, 0, 0], [1, 6, 2, 0]])
    last = (src[:1], tgt[:1])
    weights = []
    for ranks.rank in (0, 1):
        first_share, last_share = ranks.share([(src, tgt), last])
        weights.append(ranks.weight)
        assert len(first_share[0]) == (2, 1)[ranks.rank]
        assert len(last_share[0]) == 1
        assert bool(last_share[1].any()) == (ranks.rank == 0)  # rank 1 gets nothing but padding
    assert weights == [8 / 9, 1 / 9]
    (only,) = ranks.share([last])
    assert ranks.weight == 0.0
    assert torch.equal(only[1], tgt[:1])


def test_alone_the_model_is_not_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANK", raising=False)
    ranks, model = Ranks("cpu"), nn.Linear(2, 2)
    assert ranks.parallel(model) is model
    assert ranks.mean(1.5) == 1.5
    assert ranks.from_first("x") == "x"
