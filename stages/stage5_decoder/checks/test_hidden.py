"""The checks of stage 5 that are held back from a class."""

from __future__ import annotations

import math
from functools import partial

from torch.nn.functional import pad

from grader.checks import check, expect, expect_error, fail, mistake

from .inside_out import (
    BATCH,
    SAME_LEN,
    SRC_LEN,
    TGT_LEN,
    WRITTEN_OUT,
    accepts,
    causal,
    constant_attention,
    dropout_is_right,
    layer_case,
    layer_drops_branches,
    layer_drops_in_training_only,
    layer_equals,
    layer_has_defaults,
    layer_is_right,
    layer_learns,
    loaded,
    make_decoder,
    make_layer,
    name_other_defaults,
    same,
    stack_case,
    stack_drops,
    stack_equals,
    stack_has_defaults,
    stack_is_right,
    steady,
    unreached,
)
from .model_inside_out import another, make_model
from .whole_model import Sizes
from .wrong_layers import norm

# DecoderLayer ----------------------------------------------------------------------------------------------


@check("DecoderLayer", points=2)
def test_post_norm_layer_equals_pytorch(submission, draw):
    """A post-norm layer (norm_first=False) equals PyTorch's decoder layer with the same weights."""
    layer_equals(
        submission, draw, layer_case(draw, norm_first=False, lengths=(TGT_LEN, SRC_LEN), masked=False)
    )


@check("DecoderLayer", points=1)
def test_layer_uses_its_activation(submission, draw):
    """The activation goes to the feed-forward network, and one that is unknown is refused."""
    layer_equals(
        submission, draw, layer_case(draw, lengths=(TGT_LEN, SRC_LEN), masked=False, activation="gelu")
    )
    expect_error(
        ValueError,
        lambda: submission.DecoderLayer(12, 3, 20, activation="swish"),
        mentions=["swish"],
        mistake="decoder-activation-ignored",
    )


@check("DecoderLayer", points=2)
def test_each_attention_has_its_own_mask(submission, draw):
    """The target mask reaches self-attention alone, the memory mask cross-attention alone, in both orders."""
    for norm_first in (True, False):
        layer_is_right(submission, draw, norm_first)


@check("DecoderLayer", points=2)
def test_gradients_reach_every_part_of_the_layer(submission, draw):
    """A backward pass reaches every weight of the layer, the target and the memory."""
    layer_learns(submission, draw)


@check("DecoderLayer", points=2)
def test_layer_drops_in_training_only(submission, draw):
    """Dropout acts in training only, and train() equals eval() with dropout 0."""
    layer_drops_in_training_only(submission, draw)


@check("DecoderLayer", points=2)
def test_dropout_acts_on_the_branches(submission, draw):
    """Dropout empties each branch before the sum, and reaches both attentions and the feed-forward part."""
    for norm_first in (True, False):
        layer_drops_branches(submission, draw, norm_first)
    layer_has_defaults(submission, draw)


@check("DecoderLayer", points=1)
def test_layer_keeps_batch_rows_apart(submission, draw):
    """No batch row of the layer sees its neighbour."""
    rows_stay_apart(submission, draw)


def rows_stay_apart(submission, draw):
    """A lone layer; equal lengths, so that no shape stops attention over the batch axis."""
    case = layer_case(draw, masked=False)
    layer = make_layer(submission, case)
    changed = [tensor.clone() for tensor in (case.x, case.memory)]
    for tensor in changed:
        tensor[1] = draw.normal(*tensor.shape[1:], dtype=draw.exact)
    before = expect(layer(case.x, case.memory), "the output").tensor(tuple(case.x.shape))
    after = expect(layer(*changed), "the output").tensor(tuple(case.x.shape))
    if not same(before[0], after[0]):
        layer_drops_in_training_only(submission, draw)
        mistake("decoder-attends-over-batch")


# Decoder ---------------------------------------------------------------------------------------------------


@check("Decoder", points=2)
def test_post_norm_decoder_has_no_last_norm(submission, draw):
    """A post-norm decoder equals PyTorch's layers one after the other, with nothing after the last."""
    stack_equals(submission, draw, stack_case(draw, norm_first=False, lengths=(TGT_LEN, SRC_LEN)))


@check("Decoder", points=2)
def test_every_layer_gets_memory_and_masks(submission, draw):
    """Through several layers, later positions of the target and hidden ones of the memory move nothing."""
    case = stack_case(draw, lengths=(TGT_LEN, SRC_LEN))
    decoder = make_decoder(submission, case)
    x = case.x.clone()
    x[:, 3:] = draw.normal(BATCH, TGT_LEN - 3, x.shape[-1], dtype=draw.exact)
    seen = case.memory_mask[:, 0, 0, :, None]
    memory = case.memory.where(seen, draw.normal(*case.memory.shape, dtype=draw.exact))
    masks = causal(TGT_LEN), case.memory_mask
    before = expect(decoder(case.x, case.memory, *masks), "the output").tensor(tuple(case.x.shape))
    after = expect(decoder(x, memory, *masks), "the output").tensor(tuple(case.x.shape))
    if not same(before[:, :3], after[:, :3]):
        stack_is_right(submission, draw)
        mistake("decoder-masks-not-handed-on")


@check("Decoder", points=1)
def test_settings_reach_every_layer(submission, draw):
    """Norm order, activation and dropout of the decoder reach all of its layers."""
    stack_is_right(submission, draw, norm_first=False, activation="gelu")
    stack_drops(submission, draw)
    stack_has_defaults(submission, draw)


# Transformer -----------------------------------------------------------------------------------------------


@check("Transformer", points=3)
def test_padding_changes_nothing(submission, draw):
    """Padding behind the source or the target moves no logits of a real token."""
    model = make_model(submission, draw, Sizes())
    src = draw.tokens([TGT_LEN] * BATCH, model.sizes.src_vocab)
    tgt = draw.tokens([TGT_LEN - 1] * BATCH, model.sizes.tgt_vocab)
    longer_src, longer_tgt = (pad(ids, (0, 2), value=model.sizes.pad_id) for ids in (src, tgt))
    alone, padded = model.logits(src, tgt), model.logits(longer_src, longer_tgt)
    if not same(alone, padded[:, : TGT_LEN - 1]):
        model.logits_equal(padded, longer_src, longer_tgt)
        fail("Padding behind source and target moved the logits of real tokens; expected none to move.")


@check("Transformer", points=2)
def test_padding_on_the_left(submission, draw):
    """With padding on the left of source and target, the logits of real tokens equal PyTorch's."""
    model = make_model(submission, draw, Sizes())
    src, tgt = model.padded_on_the_left()
    model.logits_equal(model.run(src, tgt), src, tgt)


@check("Transformer", points=2)
def test_padding_is_what_pad_id_says(submission, draw):
    """With pad_id=3, token 3 is padding on both sides and token 0 is a word like any other."""
    model = make_model(submission, draw, Sizes(pad_id=3))
    expect(model.handle.pad_id, "pad_id").equals(3)
    src, tgt = model.batch()
    src[:, 1] = tgt[:, 2] = 0
    model.logits_equal(model.run(src, tgt), src, tgt)


@check("Transformer", points=2)
def test_embeddings_are_dropped_in_training_only(submission, draw):
    """Dropout acts on the sum of embeddings and positions and in every layer, and in training only."""
    sizes = Sizes()
    src, tgt = (
        draw.tokens([SRC_LEN] * BATCH, sizes.src_vocab),
        draw.tokens([TGT_LEN] * BATCH, sizes.tgt_vocab),
    )
    if not steady(make_model(submission, draw, sizes, dropout=0.5).handle, src, tgt):
        dropout_is_right(submission, draw)
        mistake("embedding-dropout-in-eval")
    handle = make_model(submission, draw, sizes).handle
    handle.train()
    if not steady(handle, src, tgt):
        dropout_is_right(submission, draw)
        mistake("dropout-not-handed-on")

    model = make_model(submission, draw, sizes, dropout=1.0)
    model.handle.train()
    memory = draw.normal(BATCH, SRC_LEN, sizes.d_model, dtype=draw.exact)
    outputs = {"encoder": model.handle.encode(src), "decoder": model.handle.decode(tgt, memory)}
    embedded = {"encoder": model.oracle.embed(src, 0), "decoder": model.oracle.embed(tgt, 1)}
    for side, output in outputs.items():
        found = expect(output, f"the output of the {side} with dropout 1").tensor(tuple(embedded[side].shape))
        if not same(found, model.weights[f"{side}.norm.bias"].expand_as(found)):
            dropout_is_right(submission, draw)
            missing = same(found, norm(model.weights, f"{side}.norm", embedded[side]))
            mistake("embedding-dropout-missing" if missing else "dropout-not-handed-on")
    model_has_defaults(submission, draw, sizes)


def model_has_defaults(submission, draw, sizes):
    """Made without settings, encoder and decoder are pre-norm and drop at the rate 0.1."""
    dropout_is_right(submission, draw)
    code = "transformer-defaults"
    options = {name: value for name, value in sizes._asdict().items() if name not in ("norm_first", "pad_id")}
    vocabularies = options.pop("src_vocab"), options.pop("tgt_vocab")
    default, written_out = (
        submission.Transformer(*vocabularies, **options, **settings) for settings in ({}, WRITTEN_OUT)
    )
    if "encoder.norm.weight" in written_out.shapes() and "encoder.norm.weight" not in default.shapes():
        mistake(code, argument="norm_first", seen=False, default=True)
    expect(default.pad_id, "pad_id when it is left out").equals(0)
    weights = sizes.weights(draw) | constant_attention(sizes.shapes(), draw.exact)
    for model in (default, written_out):
        loaded(model, weights, draw.exact)
    x, memory = draw.normal(2, BATCH, TGT_LEN, sizes.d_model, dtype=draw.exact)
    name_other_defaults(default.encoder.layers[0], written_out.encoder.layers[0], code, x)
    name_other_defaults(default.decoder.layers[0], written_out.decoder.layers[0], code, x, memory)


@check("Transformer", points=2)
def test_gradients_reach_every_part_of_the_model(submission, draw):
    """A backward pass reaches every weight of encoder, decoder, both embeddings and fc_out."""
    model = make_model(submission, draw, Sizes())
    src, tgt = model.batch()
    cotangent = draw.normal(*tgt.shape, model.sizes.tgt_vocab, dtype=draw.exact)
    gradients = submission.gradients(model.handle, src, tgt, cotangent=cotangent)
    names = unreached(gradients.parameters, model.sizes.shapes())
    if not names:
        return
    layer_learns(submission, draw)
    stack_is_right(submission, draw)
    if names in (["tgt_embed.weight"], ["src_embed.weight"]):
        model.embeds_right()
    if any(name.startswith("encoder.") for name in names):
        model.reads_the_source()
        mistake("encoder-detached")
    fail(f"No gradient reaches {', '.join(names[:4])}; expected one for every weight.")


@check("Transformer", points=2)
def test_matrices_start_xavier_uniform(submission, draw):
    """Every matrix, embeddings included, starts Xavier-uniform: even, up to sqrt(6 / (rows + columns))."""
    handle = submission.Transformer(61, 53, d_model=32, num_heads=4, num_layers=2, d_ff=48, max_len=7)
    wrong = []
    for name, value in handle.parameters().items():
        if value.dim() < 2:
            continue
        bound = math.sqrt(6 / sum(value.shape))
        spread = float(value.std()) / (bound / math.sqrt(3))  # 1 for uniform values
        if float(value.abs().max()) > bound * 1.001 or not 0.85 < spread < 1.15:
            wrong.append(name)
    if wrong and all("embed" in name for name in wrong):
        mistake("embeddings-not-xavier", names=", ".join(wrong))
    if wrong:
        mistake("xavier-init-missing", names=", ".join(wrong[:4]))


@check("Transformer", points=1)
def test_model_keeps_batch_rows_apart(submission, draw):
    """No sentence of a batch sees its neighbour."""
    model = make_model(submission, draw, Sizes())
    vocabs = (model.sizes.src_vocab, model.sizes.tgt_vocab)
    src, tgt = (draw.tokens([SAME_LEN] * BATCH, vocab) for vocab in vocabs)
    other_src, other_tgt = src.clone(), tgt.clone()
    other_src[1], other_tgt[1] = another(src[1], vocabs[0]), another(tgt[1], vocabs[1])
    memory = draw.normal(BATCH, SAME_LEN, model.sizes.d_model, dtype=draw.exact)
    for name, before, after in (
        ("the memory", model.handle.encode(src), model.handle.encode(other_src)),
        ("the hidden states", model.handle.decode(tgt, memory), model.handle.decode(other_tgt, memory)),
    ):
        first, second = (
            expect(value, name).tensor((*src.shape, model.sizes.d_model)) for value in (before, after)
        )
        if not same(first[0], second[0]):
            rows_stay_apart(submission, draw)
            mistake("model-attends-over-batch")


@check("Transformer", points=1)
def test_post_norm_model_equals_pytorch(submission, draw):
    """With norm_first=False, encoder and decoder are both post-norm and have no last norm."""
    model = make_model(submission, draw, Sizes(norm_first=False))
    src, tgt = model.batch()
    model.logits_equal(model.run(src, tgt), src, tgt)


@check("Transformer", points=1)
def test_a_token_outside_the_vocabulary_is_refused(submission, draw):
    """A token id outside its vocabulary, source or target, raises a ValueError that names it."""
    model = make_model(submission, draw, Sizes())
    for side, vocab in enumerate((model.sizes.src_vocab, model.sizes.tgt_vocab)):
        for bad in (vocab, -1):
            ids = model.batch()
            ids[side][0, 2] = bad
            call = partial(model.handle, *ids)
            if accepts(call):
                model.embeds_right()
            expect_error(
                ValueError,
                call,
                mentions=[str(bad)],
                mistake="token-outside-accepted",
                facts={"side": ("source", "target")[side], "token": bad, "vocab": vocab},
            )


@check("Transformer", points=1)
def test_batch_sizes_that_differ_are_refused(submission, draw):
    """Source and target of different batch sizes raise a ValueError that names both."""
    model = make_model(submission, draw, Sizes())
    for src_batch, tgt_batch in ((1, 3), (3, 1), (2, 3)):
        src = draw.tokens([SRC_LEN] * src_batch, model.sizes.src_vocab)
        tgt = draw.tokens([TGT_LEN] * tgt_batch, model.sizes.tgt_vocab)
        call = partial(model.handle, src, tgt)
        if accepts(call):
            model.reads_the_source()
        expect_error(
            ValueError,
            call,
            mentions=[str(src_batch), str(tgt_batch)],
            mistake="batch-mismatch-accepted",
            facts={"src_batch": src_batch, "tgt_batch": tgt_batch},
        )
