"""Products of matrices that hold one row a group and one column a code, added where they belong without copies.

They are scipy's BLAS: numpy's, an older one, falls back on kernels of twenty years ago on processors that it does not
know, and takes five times as long there.
"""

from typing import Any

from scipy.linalg import get_blas_funcs

from dpwgan.array_types import AnyFloats


def multiply_rows(left: AnyFloats, right: AnyFloats, *, scale: float, into: AnyFloats | None = None) -> AnyFloats:
    """`scale` times the product of every row of one with every row of the other.

    Shapes: (a, codes) and (b, codes), in C order, to (a, b), in Fortran order, as `into` has to be, which is written
    over.
    """
    multiply = get_blas_funcs("gemm", dtype=left.dtype)
    # BLAS has columns lie in one piece: it is given the transposed, which are that without a copy.
    where: dict[str, Any] = {} if into is None else {"c": into, "overwrite_c": 1}
    product: AnyFloats = multiply(scale, left.T, right.T, trans_a=1, **where)
    return product


def add_rows(weights: AnyFloats, rows: AnyFloats, *, scale: float, into: AnyFloats) -> None:
    """Adds `scale` times sums of rows to other rows, in place.

    Shapes: `weights` (a, b) in either order, `rows` (b, codes) to `into` (a, codes), both in C order and of one type.
    """
    multiply = get_blas_funcs("gemm", dtype=rows.dtype)
    if weights.flags.f_contiguous:
        multiply(scale, rows.T, weights, trans_b=1, beta=1.0, c=into.T, overwrite_c=1)
    else:
        multiply(scale, rows.T, weights.T, beta=1.0, c=into.T, overwrite_c=1)
