"""The checks of stage 5 that learners may read."""

from __future__ import annotations

from functools import partial

from grader.checks import check, expect, expect_error, mistake

from .inside_out import (
    BATCH,
    D_MODEL,
    LAYERS,
    SRC_LEN,
    TGT_LEN,
    accepts,
    causal,
    layer_case,
    layer_equals,
    layer_is_right,
    make_decoder,
    make_layer,
    same,
    stack_case,
    stack_equals,
    stack_is_right,
)
from .model_inside_out import another, make_model
from .whole_model import Sizes
from .wrong_layers import nearest


@check("DecoderLayer", points=3)
def test_layer_equals_pytorch(submission, draw):
    """A pre-norm layer equals PyTorch's decoder layer with the same weights."""
    layer_equals(submission, draw, layer_case(draw, lengths=(TGT_LEN, SRC_LEN), masked=False))


@check("DecoderLayer", points=2)
def test_memory_changes_the_output(submission, draw):
    """Another memory gives another output, at every position of the target."""
    case = layer_case(draw, lengths=(TGT_LEN, SRC_LEN), masked=False)
    layer = make_layer(submission, case)
    last = case.memory.clone()
    last[:, -1] = draw.normal(BATCH, D_MODEL, dtype=draw.exact)
    before = expect(layer(case.x, case.memory), "the output").tensor(tuple(case.x.shape))
    after = expect(layer(case.x, last), "the output with another memory").tensor(tuple(case.x.shape))
    if bool((before - after).abs().amax(-1).lt(1e-9).any()):
        mistake("memory-ignored")


@check("DecoderLayer", points=2)
def test_the_target_asks_and_the_memory_answers(submission, draw):
    """In cross-attention the queries come from the target, keys and values from the memory."""
    layer_equals(submission, draw, layer_case(draw, masked=False))


@check("DecoderLayer", points=2)
def test_self_attention_follows_the_target_mask(submission, draw):
    """Under a causal mask, the output at a position does not depend on later positions of the target."""
    case = layer_case(draw, lengths=(TGT_LEN, SRC_LEN), masked=False)
    layer = make_layer(submission, case)
    changed = case.x.clone()
    changed[:, 3:] = draw.normal(BATCH, TGT_LEN - 3, D_MODEL, dtype=draw.exact)
    before, after = (
        expect(layer(x, case.memory, causal(TGT_LEN)), "the output").tensor(tuple(x.shape))
        for x in (case.x, changed)
    )
    if not same(before[:, :3], after[:, :3]):
        layer_is_right(submission, draw)
        mistake("target-mask-unused")


@check("DecoderLayer", points=2)
def test_cross_attention_follows_the_memory_mask(submission, draw):
    """Positions of the memory that the memory mask hides change nothing."""
    case = layer_case(draw, lengths=(TGT_LEN, SRC_LEN))
    layer = make_layer(submission, case)
    hidden = ~case.memory_mask[:, 0, 0, :, None]
    changed = case.memory.where(~hidden, draw.normal(*case.memory.shape, dtype=draw.exact))
    before, after = (
        expect(layer(case.x, memory, None, case.memory_mask), "the output").tensor(tuple(case.x.shape))
        for memory in (case.memory, changed)
    )
    if not same(before, after):
        layer_is_right(submission, draw)
        mistake("memory-mask-unused")


@check("Decoder", points=3)
def test_decoder_equals_pytorch(submission, draw):
    """A pre-norm decoder of several layers equals PyTorch's with the same weights, last norm included."""
    stack_is_right(submission, draw)


@check("Decoder", points=1)
def test_layers_have_their_own_weights(submission, draw):
    """Each layer of the decoder has weights of its own."""
    case = stack_case(draw)
    decoder = make_decoder(submission, case)
    names = decoder.parameters()
    for index in range(LAYERS):
        if not any(name.startswith(f"layers.{index}.") for name in names):
            mistake("decoder-layers-shared")
    stack_equals(submission, draw, case)


@check("Transformer", points=3)
def test_transformer_equals_pytorch(submission, draw):
    """The logits equal those of nn.Transformer with the same weights and embeddings, on padded batches."""
    model = make_model(submission, draw, Sizes())
    src, tgt = model.batch()
    model.logits_equal(model.run(src, tgt), src, tgt)


@check("Transformer", points=2)
def test_encode_and_decode_take_masks_as_they_come(submission, draw):
    """encode and decode stop before fc_out, use the masks they get, and hide nothing where a mask is None."""
    model = make_model(submission, draw, Sizes())
    handle, oracle = model.handle, model.oracle
    src, tgt = model.batch()
    src_mask, tgt_mask, _ = oracle.masks(src, tgt)

    memory, masked = oracle.encode(src), oracle.encode(src, src_mask)
    mistakes = {"masks-built-inside": lambda: masked}
    model.equals(handle.encode(src), "the memory without a mask", memory, mistakes)
    mistakes = {"source-padding-in-encoder": lambda: memory}
    model.equals(handle.encode(src, src_mask), "the memory", masked, mistakes)

    hidden = oracle.decode(tgt, memory)
    built = [tgt_mask, causal(TGT_LEN), (tgt != model.sizes.pad_id)[:, None, None]]
    found = handle.decode(tgt, memory)
    mistakes = {
        "hidden-through-fc-out": lambda: oracle.logits(hidden),
        "masks-built-inside": lambda: nearest(
            found, lambda ids, mask: oracle.decode(ids, memory, mask), tgt, built
        ),
    }
    model.equals(found, "the hidden states without a mask", hidden, mistakes)
    tgt_mask = causal(TGT_LEN)
    masked = oracle.decode(tgt, memory, tgt_mask, src_mask)
    mistakes = {
        "source-padding-in-cross-attention": lambda: oracle.decode(tgt, memory, tgt_mask),
        "causal-mask-missing": lambda: oracle.decode(tgt, memory, None, src_mask),
    }
    model.equals(handle.decode(tgt, memory, tgt_mask, src_mask), "the hidden states", masked, mistakes)


@check("Transformer", points=3)
def test_no_position_sees_a_later_one(submission, draw):
    """Changing a token of the target moves no logits before it, also in a padded batch."""
    model = make_model(submission, draw, Sizes())
    src, tgt = model.batch()
    changed = tgt.clone()
    changed[:, 3] = another(tgt[:, 3], model.sizes.tgt_vocab)
    before, after = model.logits(src, tgt), model.logits(src, changed)
    real = tgt[:, :3] != model.sizes.pad_id
    if not same(before[:, :3][real], after[:, :3][real]):
        model.logits_equal(before, src, tgt)
        mistake("causal-mask-missing")


@check("Transformer", points=2)
def test_the_source_changes_the_logits(submission, draw):
    """Other source tokens, and other weights in the encoder, give other logits."""
    make_model(submission, draw, Sizes()).reads_the_source()


@check("Transformer", points=2)
def test_embeddings_are_scaled_before_positions_are_added(submission, draw):
    """A token's vector is its embedding times sqrt(d_model), plus the position, which is not scaled."""
    make_model(submission, draw, Sizes()).embeds_right()


@check("Transformer", points=1)
def test_a_target_longer_than_max_len_is_refused(submission, draw):
    """A target of max_len tokens works; one more raises a ValueError that names max_len."""
    sizes = Sizes()
    model = make_model(submission, draw, sizes)
    src, _ = model.batch()
    full, longer = (
        draw.tokens([length] * BATCH, sizes.tgt_vocab) for length in (sizes.max_len, sizes.max_len + 1)
    )
    model.logits(src, full)
    memory = draw.normal(BATCH, SRC_LEN, sizes.d_model, dtype=draw.exact)
    for call in (partial(model.handle.decode, longer, memory), partial(model.handle, src, longer)):
        if accepts(call):
            model.embeds_right()
        expect_error(
            ValueError,
            call,
            mentions=[str(sizes.max_len)],
            mistake="target-too-long-accepted",
            facts={"length": sizes.max_len + 1, "max_len": sizes.max_len},
        )
