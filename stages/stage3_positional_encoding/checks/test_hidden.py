"""Checks of stage 3 that are held back from a class."""

from __future__ import annotations

import torch

from grader.checks import check, expect, expect_error, fail, mistake

from . import oracles
from .oracles import LEARNED, PER_HEAD, PER_TOKEN, SINUSOIDAL


@check("sinusoidal_table", points=2)
def test_table_is_right_up_to_position_5000(submission, draw):
    """The table is right far out too: to 0.002 up to position 5000."""
    length, d_model = 5001 - draw.integer(0, 50), 2 * draw.integer(4, 7)
    oracles.expect_table(submission.sinusoidal_table(length, d_model), length, d_model, "table", atol=2e-3)


@check("SinusoidalPositionalEncoding", points=1)
def test_table_follows_the_module(submission, draw):
    """`.to(...)` takes the table along: in a model of another dtype it has that dtype."""
    layer = submission.SinusoidalPositionalEncoding(10, 12)
    layer.to(torch.bfloat16)
    if expect(layer.pe, "pe after .to(torch.bfloat16)").tensor().dtype != torch.bfloat16:
        mistake("table-not-a-buffer")
    x = draw.normal(2, 5, 10, dtype=torch.bfloat16)
    output = expect(layer(x), "output", dims=PER_TOKEN).value()
    if isinstance(output, torch.Tensor) and output.dtype != torch.bfloat16:
        fail(f"In a bfloat16 module the output of a bfloat16 input has dtype {output.dtype}.")


@check("SinusoidalPositionalEncoding", points=2)
def test_dropout_on_the_sum(submission, draw):
    """Dropout acts on the sum of input and positions, in training only."""
    max_len, d_model, p = 12, 10, 0.5
    layer = submission.SinusoidalPositionalEncoding(d_model, max_len, dropout=p)
    rows = oracles.sinusoidal_rows(layer, max_len, d_model)
    oracles.expect_dropout(layer, draw.normal(4, 7, d_model), rows, p, SINUSOIDAL)


@check("SinusoidalPositionalEncoding", points=1)
def test_input_stays_as_it_was(submission, draw):
    """The embeddings that go in are not modified."""
    layer = submission.SinusoidalPositionalEncoding(10, 12)
    x = draw.normal(2, 5, 10)
    returned, (after,) = submission.inputs_after(layer, x)
    expect(after, "x after the call", dims=PER_TOKEN).equals(
        x, mistakes={"positions-added-in-place": lambda: expect(returned, "output").value()}
    )
    expect(returned, "output", dims=PER_TOKEN).tensor(shape=tuple(x.shape), dtype=x.dtype)


@check("LearnedPositionalEncoding", points=1)
def test_learned_rows_are_trained(submission, draw):
    """Each row of the embedding gets the gradients of the tokens at its position, the other rows none."""
    max_len, d_model, offset = 12, 7, 3
    layer = submission.LearnedPositionalEncoding(d_model, max_len)
    x, cotangent = draw.normal(2, 5, d_model), draw.normal(2, 5, d_model)
    gradients = submission.gradients(layer, x, cotangent=cotangent, offset=offset)
    expect(gradients.output, "output").differs_from(x, mistake="learned-not-added")
    if "embedding.weight" not in gradients.parameters:
        found = ", ".join(gradients.parameters) or "none"
        fail(f"The layer has no parameter embedding.weight; its parameters are: {found}.")
    gradient = gradients.parameters["embedding.weight"]
    if gradient is None or not gradient.any():
        mistake("learned-not-trained")
    right = torch.zeros(max_len, d_model)
    right[offset : offset + 5] = cotangent.sum(dim=0)
    expect(gradient, "gradient of embedding.weight", dims="position feature").equals(
        right,
        mistakes={"learned-offset-ignored": lambda: right.roll(-offset, dims=0)},
        facts={"offset": offset},
    )


@check("LearnedPositionalEncoding", points=1)
def test_learned_dropout_on_the_sum(submission, draw):
    """Dropout acts on the sum of input and positions, in training only."""
    max_len, d_model, p = 12, 7, 0.5
    layer = submission.LearnedPositionalEncoding(d_model, max_len, dropout=p)
    rows = draw.normal(max_len, d_model)
    layer.load_state_dict({"embedding.weight": rows})
    oracles.expect_dropout(layer, draw.normal(4, 5, d_model), rows, p, LEARNED)


@check("LearnedPositionalEncoding", points=1)
def test_learned_input_stays_as_it_was(submission, draw):
    """The embeddings that go in are not modified."""
    layer = submission.LearnedPositionalEncoding(7, 12)
    x = draw.normal(2, 5, 7)
    returned, (after,) = submission.inputs_after(layer, x)
    expect(after, "x after the call", dims=PER_TOKEN).equals(
        x, mistakes={"learned-added-in-place": lambda: expect(returned, "output").value()}
    )
    expect(returned, "output", dims=PER_TOKEN).tensor(shape=tuple(x.shape), dtype=x.dtype)


@check("rotary_table", points=1)
def test_base_counts(submission, draw):
    """Another base gives other wavelengths: Llama 3 uses 500000."""
    length, d_k = draw.integer(20, 51), 2 * draw.integer(4, 9)
    table = submission.rotary_table(length, d_k, base=500000.0)
    oracles.expect_rotary_table(table, length, d_k, 500000.0, atol=1e-5)


@check("rotary_table", points=1)
def test_rotary_table_is_right_up_to_position_5000(submission, draw):
    """The tables are right far out too: to 0.002 up to position 5000."""
    length, d_k = 5001 - draw.integer(0, 50), 2 * draw.integer(4, 7)
    oracles.expect_rotary_table(submission.rotary_table(length, d_k), length, d_k, 10000.0, atol=2e-3)


@check("apply_rotary", points=2)
def test_scores_depend_on_distance_alone(submission, draw):
    """Moving query and key by the same number of positions leaves their dot product as it was."""
    batch, heads, seq, d_k, length = 2, 3, 5, 8, 40
    angle = oracles.angles(length, oracles.exponents(d_k)).float()
    cos, sin = angle.cos(), angle.sin()
    query, key = (draw.normal(batch, heads, seq, d_k) for _ in range(2))

    def scores(query_offset, key_offset):
        turned = []
        for x, offset, what in ((query, query_offset, "rotated query"), (key, key_offset, "rotated key")):
            returned = oracles.rotated(submission, x, cos, sin, offset)
            turned.append(expect(returned, what, dims=PER_HEAD).tensor(tuple(x.shape), x.dtype))
        return turned[0] @ turned[1].mT

    near, far, apart = scores(0, 0), scores(30, 30), scores(9, 0)
    if not torch.allclose(near, far, atol=1e-3):
        difference = (near - far).abs().max()
        fail(
            f"Query and key were both moved by 30 positions, and a score changed by {difference:.3g}; "
            "it should depend on the distance between them alone."
        )
    if torch.allclose(near, apart, atol=1e-3):
        fail("The query alone was moved by 9 positions, and no score changed; the distance should matter.")


@check("apply_rotary", points=1)
def test_rotary_positions_outside_the_tables_are_refused(submission, draw):
    """A negative offset, or a token behind the last row of the tables, raises an error."""
    length, d_k = 9, 8
    angle = draw.normal(length, d_k // 2)
    # Where PyTorch itself would refuse the shapes, its own errors are fine.
    errors = (ValueError, RuntimeError, IndexError)
    for seq, offset in ((4, length - 1), (length + 1, 0), (1, length)):
        expect_error(
            errors,
            lambda seq=seq, offset=offset: submission.apply_rotary(
                draw.normal(2, 3, seq, d_k), angle.cos(), angle.sin(), offset
            ),
            mistake="rotary-too-long-accepted",
            facts={"seq": seq, "offset": offset, "length": length},
        )
    for seq, offset in ((3, -5), (1, -1)):
        expect_error(
            errors,
            lambda seq=seq, offset=offset: submission.apply_rotary(
                draw.normal(2, 3, seq, d_k), angle.cos(), angle.sin(), offset
            ),
            mistake="rotary-negative-offset-accepted",
            facts={"seq": seq, "offset": offset},
        )


@check("apply_rotary", points=1)
def test_rotary_input_stays_as_it_was(submission, draw):
    """The queries and keys that go in are not modified."""
    angle = draw.normal(7, 4)
    cos, sin = angle.cos(), angle.sin()
    x = draw.normal(2, 3, 5, 8)
    oracles.rotated(submission, x.clone(), cos, sin)
    returned, (after, *_) = submission.inputs_after(submission.apply_rotary, x, cos, sin)
    expect(after, "x after the call", dims=PER_HEAD).equals(
        x, mistakes={"rotary-in-place": lambda: expect(returned, "output").value()}
    )
    expect(returned, "output", dims=PER_HEAD).tensor(shape=tuple(x.shape), dtype=x.dtype)
