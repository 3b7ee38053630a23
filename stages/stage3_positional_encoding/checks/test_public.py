"""Checks of stage 3 that learners may read."""

from __future__ import annotations

import torch

from grader.checks import check, expect, expect_error, fail, mistake

from . import oracles
from .oracles import LEARNED, PER_HEAD, SINUSOIDAL


@check("sinusoidal_table", points=3)
def test_table_follows_the_formula(submission, draw):
    """Column 2i is sin(p / 10000^(2i/d_model)) and column 2i+1 the cosine of the same angle."""
    length, d_model = draw.integer(20, 51), 2 * draw.integer(5, 10)
    table = submission.sinusoidal_table(length, d_model)
    oracles.expect_table(table, length, d_model, "table", atol=1e-5)


@check("sinusoidal_table", points=1)
def test_position_0_is_zeros_and_ones(submission, draw):
    """At position 0 every sine is 0 and every cosine 1: 0, 1, 0, 1, ..."""
    d_model = 2 * draw.integer(5, 10)
    oracles.expect_table(submission.sinusoidal_table(1, d_model), 1, d_model, "table of one row", atol=1e-5)


@check("sinusoidal_table", points=1)
def test_odd_d_model_is_refused(submission, draw):
    """An odd d_model raises ValueError and is named in the message."""
    d_model = 2 * draw.integer(5, 10) + 1
    expect_error(
        ValueError,
        lambda: submission.sinusoidal_table(6, d_model),
        mentions=[str(d_model)],
        mistake="odd-width-accepted",
        facts={"d_model": d_model},
    )


@check("SinusoidalPositionalEncoding", points=2)
def test_every_sequence_gets_the_rows_in_order(submission, draw):
    """Token s of every sequence gets row s of the table added to it."""
    max_len, d_model = 12, 10
    layer = submission.SinusoidalPositionalEncoding(d_model, max_len)
    rows = oracles.sinusoidal_rows(layer, max_len, d_model)
    for batch, seq in ((3, 5), (2, 7), (1, max_len)):
        x = draw.normal(batch, seq, d_model)
        oracles.expect_sum(oracles.with_positions(layer, x, max_len, SINUSOIDAL), x, rows, SINUSOIDAL)


@check("SinusoidalPositionalEncoding", points=2)
def test_offset_moves_the_rows(submission, draw):
    """With offset=o the first token gets row o, the next one row o+1, and so on to the last row of the table."""
    max_len, d_model = 12, 10
    layer = submission.SinusoidalPositionalEncoding(d_model, max_len)
    rows = oracles.sinusoidal_rows(layer, max_len, d_model)
    for batch, seq, offset in ((3, 5, 4), (2, 7, max_len - 7), (2, 1, max_len - 1)):
        x = draw.normal(batch, seq, d_model)
        returned = oracles.with_positions(layer, x, max_len, SINUSOIDAL, offset)
        oracles.expect_sum(returned, x, rows, SINUSOIDAL, offset)


@check("SinusoidalPositionalEncoding", points=2)
def test_positions_outside_the_table_are_refused(submission, draw):
    """A negative offset, or a token behind the last row of the table, raises ValueError."""
    max_len, d_model = 9, 10
    layer = submission.SinusoidalPositionalEncoding(d_model, max_len)
    for seq, offset in ((4, max_len - 1), (max_len + 1, 0), (5, max_len - 4)):
        expect_error(
            ValueError,
            lambda seq=seq, offset=offset: layer(draw.normal(2, seq, d_model), offset),
            mentions=[str(max_len)],
            mistake="too-long-accepted",
            facts={"seq": seq, "offset": offset, "max_len": max_len},
        )
    for seq, offset in ((3, -5), (4, -1)):
        expect_error(
            ValueError,
            lambda seq=seq, offset=offset: layer(draw.normal(2, seq, d_model), offset),
            mentions=[str(offset)],
            mistake="negative-offset-accepted",
            facts={"seq": seq, "offset": offset},
        )


@check("SinusoidalPositionalEncoding", points=2)
def test_table_is_saved_with_the_weights(submission, draw):
    """The state dict holds the table as `pe`, of shape (1, max_len, d_model)."""
    max_len, d_model = draw.integer(13, 20), 10
    layer = submission.SinusoidalPositionalEncoding(d_model, max_len)
    if "pe" not in layer.shapes():
        layer.to(torch.float16)
        moved = expect(layer.pe, "pe").tensor().dtype == torch.float16
        mistake("table-not-saved" if moved else "table-not-a-buffer")
    table = expect(layer.pe, "pe", dims="1 position feature").tensor((1, max_len, d_model))
    oracles.expect_table(table[0], max_len, d_model, "pe[0]", atol=1e-5)


@check("SinusoidalPositionalEncoding", points=1)
def test_table_is_not_trained(submission, draw):
    """The table is no parameter: training leaves it as it is."""
    layer = submission.SinusoidalPositionalEncoding(10, 12)
    gradients = submission.gradients(layer, draw.normal(2, 5, 10))
    trained = [name for name, gradient in gradients.parameters.items() if gradient is not None]
    if trained:
        mistake("table-trained", name=trained[0])
    expect(gradients.output, "output").tensor(shape=(2, 5, 10))


@check("LearnedPositionalEncoding", points=2)
def test_learned_rows_are_added(submission, draw):
    """Token s of every sequence gets row offset + s of the embedding added to it."""
    max_len, d_model = 12, 7
    layer = submission.LearnedPositionalEncoding(d_model, max_len)
    layer.to(draw.exact)
    rows = draw.normal(max_len, d_model, dtype=draw.exact)
    layer.load_state_dict({"embedding.weight": rows})
    for batch, seq, offset in ((3, 5, 0), (2, 5, 4), (2, 1, max_len - 1), (1, max_len, 0)):
        x = draw.normal(batch, seq, d_model, dtype=draw.exact)
        returned = oracles.with_positions(layer, x, max_len, LEARNED, offset)
        oracles.expect_sum(returned, x, rows, LEARNED, offset)


@check("LearnedPositionalEncoding", points=1)
def test_learned_positions_outside_the_table_are_refused(submission, draw):
    """A negative offset, or a token behind the last row of the embedding, raises ValueError."""
    max_len, d_model = 9, 7
    layer = submission.LearnedPositionalEncoding(d_model, max_len)
    for seq, offset in ((4, max_len - 1), (max_len + 1, 0), (5, max_len - 4)):
        expect_error(
            ValueError,
            lambda seq=seq, offset=offset: layer(draw.normal(2, seq, d_model), offset),
            mentions=[str(max_len)],
            mistake="learned-too-long-accepted",
            facts={"seq": seq, "offset": offset, "max_len": max_len},
        )
    for seq, offset in ((3, -5), (4, -1)):
        expect_error(
            ValueError,
            lambda seq=seq, offset=offset: layer(draw.normal(2, seq, d_model), offset),
            mentions=[str(offset)],
            mistake="learned-negative-offset-accepted",
            facts={"seq": seq, "offset": offset},
        )


@check("rotary_table", points=2)
def test_rotary_table_follows_the_formula(submission, draw):
    """Row p, column i of the two tables are cosine and sine of p * 10000^(-2i/d_k)."""
    length, d_k = draw.integer(20, 51), 2 * draw.integer(4, 9)
    oracles.expect_rotary_table(submission.rotary_table(length, d_k), length, d_k, 10000.0, atol=1e-5)


@check("apply_rotary", points=3)
def test_pairs_are_rotated(submission, draw):
    """Features i and i + d_k/2 of a token are turned, together, by the angle of its position."""
    batch, heads, seq, d_k, length = 2, 3, 5, 8, 11
    for dtype in (torch.float32, draw.exact):
        x = draw.normal(batch, heads, seq, d_k, dtype=dtype)
        angle = draw.normal(length, d_k // 2, dtype=dtype)
        cos, sin = angle.cos(), angle.sin()
        # float32 inside is accurate enough, also for an x of float64.
        expect(oracles.rotated(submission, x, cos, sin), "rotated x", dims=PER_HEAD).equals(
            oracles.turned(x, cos[:seq], sin[:seq]), oracles.wrong_turns(x, cos, sin), atol=2e-5, rtol=1e-4
        )


@check("apply_rotary", points=1)
def test_rotation_keeps_lengths(submission, draw):
    """A rotated query or key is as long as it was."""
    x, angle = draw.normal(2, 3, 5, 8), draw.normal(7, 4)
    returned = oracles.rotated(submission, x, angle.cos(), angle.sin())
    output = expect(returned, "rotated x", dims=PER_HEAD).tensor((2, 3, 5, 8), x.dtype)
    before, after = x.norm(dim=-1), output.norm(dim=-1)
    worst = (after - before).abs().argmax()
    if not torch.allclose(after, before, rtol=1e-4):
        fail(
            f"A vector of length {before.flatten()[worst]:.3f} came back with length {after.flatten()[worst]:.3f}; "
            "a rotation changes no length."
        )


@check("apply_rotary", points=2)
def test_offset_moves_the_angles(submission, draw):
    """With offset=o the first token is turned by row o of the tables, to the last row at most."""
    batch, heads, d_k, length = 2, 3, 8, 11
    angle = draw.normal(length, d_k // 2)
    cos, sin = angle.cos(), angle.sin()
    for seq, offset in ((5, 4), (7, length - 7), (1, length - 1)):
        x = draw.normal(batch, heads, seq, d_k)
        here = slice(offset, offset + seq)
        returned = oracles.rotated(submission, x, cos, sin, offset)
        expect(returned, "rotated x", dims=PER_HEAD).equals(
            oracles.turned(x, cos[here], sin[here]),
            oracles.wrong_turns(x, cos, sin, offset),
            facts={"offset": offset},
        )
