"""Two processes that train a GPT together make the steps of one process with the same batch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from bank import ROOT

from solutions.stage7_gpt import checkpoint, demo

OPTIONS = (
    "--steps 6 --every 3 --d-model 16 --num-heads 2 --num-layers 1 --block-size 8 --batch-size 3 --warmup 4"
).split()


def test_two_processes_train_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tmp_path / "text.txt"
    text.write_text("the cat sat on the mat; the rat sat on the cat.\n" * 12, encoding="utf-8")
    options = ["--text", str(text), *OPTIONS]
    for name in ("draw_curves", "draw_surprise", "draw_sampling"):
        monkeypatch.setattr(demo, name, lambda *_: None)
    assert demo.main([*options, "--out", str(tmp_path / "one")]) == 0

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    launch = f"-m torch.distributed.run --nproc-per-node 2 --master-addr 127.0.0.1 --master-port {port}"
    module = ["-m", "solutions.stage7_gpt.demo", "train", *options, "--out", str(tmp_path / "two")]
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
    assert done.stdout.count("step 6/6") == 1  # the first process speaks, the other is silent

    one, two = (checkpoint.load(tmp_path / name / demo.CHECKPOINT) for name in ("one", "two"))
    for alone, together in zip(one.history, two.history, strict=True):
        for loss in ("train_loss", "valid_loss"):
            assert together[loss] == pytest.approx(alone[loss], rel=2e-5)
    # The biases of the keys move every score of a query alike, so their gradient is rounding and no more; Adam
    # makes steps of ordinary size of it.
    names = [name for name in one.weights if not name.endswith("w_k.bias")]
    torch.testing.assert_close(
        {name: two.weights[name] for name in names},
        {name: one.weights[name] for name in names},
        rtol=1e-3,
        atol=1e-3,
    )
