"""Checks the number of heads, for the module beside it."""


def checked_head_width(d_model: int, num_heads: int) -> int:
    if num_heads <= 0 or d_model % num_heads:
        raise ValueError(f"cannot cut d_model={d_model} into num_heads={num_heads} heads")
    return d_model // num_heads
