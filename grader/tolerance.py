"""How close is equal: by dtype and device."""

from __future__ import annotations

import torch

# (absolute, relative). float32 is wider than torch.testing's default: right code that sums in another order
# (a loop over rows, scores scaled before the product) differs by up to 6e-6 a layer. float64 is wider too: the
# common torch.sqrt(torch.tensor(d_k)) is a float32 root, 2e-8 beside the exact one, and right all the same.
CPU = {
    torch.float64: (1e-6, 1e-6),
    torch.float32: (2e-5, 1e-4),
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
}
ACCELERATOR = {
    torch.float64: (1e-6, 1e-6),
    torch.float32: (2e-4, 2e-4),
    torch.float16: (1e-2, 1e-2),
    torch.bfloat16: (5e-2, 5e-2),
}


def tolerance(dtype: torch.dtype, device: str = "cpu") -> tuple[float, float]:
    """(absolute, relative) for a dtype on a device; (0, 0) for integers and bools."""
    return (CPU if device == "cpu" else ACCELERATOR).get(dtype, (0.0, 0.0))


def close(actual: torch.Tensor, expected: torch.Tensor, atol: float, rtol: float) -> torch.Tensor:
    """A bool tensor: where two tensors of one shape agree. NaN agrees with NaN, infinity with itself."""
    if not (actual.is_floating_point() or expected.is_floating_point()):
        return actual == expected
    a, b = actual.double(), expected.double()
    return torch.isclose(a, b, rtol=rtol, atol=atol, equal_nan=True)
