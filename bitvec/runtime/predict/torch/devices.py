"""The devices that torch can use here."""

from __future__ import annotations

import torch

from bitvec.errors import InputError


def find(device: torch.device | str | None) -> torch.device:
    """Return a device, the CPU if None.

    Raises
    ------
    InputError
        If torch does not know it or cannot use it here.
    """
    try:
        found = torch.device("cpu" if device is None else device)
        # Reading it back refuses the device meta, which holds no values.
        torch.empty(1, device=found).cpu()
    except (RuntimeError, AssertionError, TypeError, ValueError, ImportError) as error:
        reason = (str(error).splitlines() or [""])[0]
        raise InputError(
            f"`device` must be one that torch can use here, got {device!r}: {reason}"
        ) from None
    return found
