"""Figures, goals and tables of compressed models, of the rows that were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from benchmarks.report import Column, Goal, Report, Row, groups, measured_by, table

LEVEL: Final = 0.05
HALF_A_POINT: Final = 0.5
COUNTS: Final = ("file", "header")
"""Bytes of the forest: as scikit-learn's model is saved, and in our smallest exact header."""
KINDS: Final = {"booster": "booster of", "forest": "forest of", "CART": "CART of"}
WAYS: Final = ("compress", *KINDS, "MLP, 8 bits")


def figures(rows: Sequence[Row]) -> list[Row]:
    """Return a row for each set and size: means over seeds, and tests by seed. Such rows stay."""
    if rows and "sizes" not in rows[0]:
        return list(rows)
    found: list[Row] = []
    for (name,), runs in groups(rows, "set").items():
        first = runs[0]
        shared = {"set": name, "measure": first["measure"], "seeds": len(runs)}
        shared["n_rows"] = first["n_rows"]
        for size in map(int, first["sizes"]):
            ways = [run["sizes"][str(size)] for run in runs]
            row = shared | {"what": "size", "kb": size}
            for way in WAYS:
                scores = [one[way]["score"] for one in ways if way in one]
                row[way] = round(float(np.mean(scores)), 5) if scores else None
                if way != "compress":
                    row[f"signs {way}"] = "".join(sign(one[way]["p"]) for one in ways if way in one)
            row["recipe"] = ways[0]["compress"]["recipe"]
            for way in ("compress", "booster"):
                sizes = [one[way].get("program") for one in ways if way in one]
                known = [one for one in sizes if one]
                row[f"program {way}"] = round(float(np.mean(known))) if known else None
            found.append(row)
        found.append(shared | _forest_figures(runs))
    return found


def _forest_figures(runs: Sequence[Row]) -> Row:
    """Return means over seeds of the forest and of the models of a fiftieth of its bytes."""
    first = runs[0]
    row: Row = {"what": "forest", "saved by": first["saved by"]}
    row["forest"] = _mean([run["forest_score"] for run in runs], 5)
    sign = 1 if first["measure"] == "accuracy" else -1
    unit = 1.0 if sign == 1 else first["deviation"]
    for count in COUNTS:
        row[f"{count} bytes"] = _mean([run[f"{count}_bytes"] for run in runs], 0)
        small = [run.get(f"{count}_small") for run in runs]
        known = [(run, one) for run, one in zip(runs, small, strict=True) if one]
        whole = len(known) == len(runs)
        gaps = [100 * sign * (one["score"] - run["forest_score"]) / unit for run, one in known]
        row[f"{count} small"] = _mean([one["score"] for _, one in known], 5) if whole else None
        row[f"{count} small bytes"] = (
            _mean([one["bytes"] for _, one in known], 0) if whole else None
        )
        row[f"{count} points"] = _mean(gaps, 2) if whole else None
    for name in ("seconds", "cpu_s"):
        row[name] = _mean([run[name] for run in runs], 1)
    return row


def _mean(values: Sequence[float], digits: int) -> float:
    found = round(float(np.mean(values)), digits)
    return found if digits else int(found)


def most_by_chance(n: int) -> int:
    """Return the most runs of n that equally good models lose without it being a surprise.

    Each of n two-sided tests at `LEVEL` calls a model worse that is as good with a probability of
    `LEVEL` / 2: of 72 tests in 1.8. More than the returned number of them have a probability of at
    most .05: a one-sided bound of the binomial distribution, 4 of 72 (P(X > 4) = .036). The tests
    of one set share rows, which makes many losses at once likelier than this says.

    >>> most_by_chance(72)
    4
    """
    from scipy.stats import binom

    return int(binom.ppf(1 - LEVEL, n, LEVEL / 2))


def sign(p: float) -> str:
    """Return + where ours is significantly better, - where it is worse, by a signed p."""
    return "0" if abs(p) >= LEVEL else "+" if p > 0 else "-"


def goals(rows: Sequence[Row]) -> list[Goal]:
    """Return what is asked for."""
    sized = [row for row in rows if row["what"] == "size"]
    signs = "".join(row["signs booster"] for row in sized)
    n = len(signs)
    found = [
        Goal("runs better than the tuned booster", f">= {-(-n // 2)} of {n}", _of(signs, "+")),
        Goal(
            "runs worse than the tuned booster", f"<= {most_by_chance(n)} of {n}", _of(signs, "-")
        ),
    ]
    for way in ("forest", "CART"):
        here = [row for row in sized if row[way] is not None]
        good = sum(_gain(row, way) > 0 for row in here)
        found.append(
            Goal(f"means better than the {way}", f">= {len(here)} of {len(here)}",
                 f"{good} of {len(here)}" if here else None)
        )  # fmt: skip
    sets = groups(sized, "set")
    better = sum(np.mean([_gain(r, WAYS[-1]) for r in some]) > 0 for some in sets.values())
    worse = sum(
        "".join(r[f"signs {WAYS[-1]}"] for r in some).count("-")
        > "".join(r[f"signs {WAYS[-1]}"] for r in some).count("+")
        for some in sets.values()
    )
    n_sets = len(sets)
    found += [
        Goal("sets better than the MLP", f">= {-(-n_sets // 2)} of {n_sets}",
             f"{better} of {n_sets}" if n_sets else None),
        Goal("sets significantly worse than the MLP", f"<= {n_sets // 4} of {n_sets}",
             f"{worse} of {n_sets}" if n_sets else None),
    ]  # fmt: skip
    whole = [row for row in rows if row["what"] == "forest"]
    for count, told in zip(COUNTS, ("scikit-learn's file of it", "its exact header"), strict=True):
        points = [row[f"{count} points"] for row in whole]
        near = sum(one is not None and one >= -HALF_A_POINT for one in points)
        found.append(
            Goal(f"sets with RandomForest(100)'s score within half a point in 1/50 of {told}",
                 f">= {-(-2 * len(whole) // 3)} of {len(whole)}",
                 f"{near} of {len(whole)}" if whole else None)
        )  # fmt: skip
    return found


def _of(signs: str, sign: str) -> str | None:
    return f"{signs.count(sign)} of {len(signs)}" if signs else None


def _gain(row: Row, way: str) -> float:
    gain = row["compress"] - row[way]
    return float(gain if row["measure"] == "accuracy" else -gain)


def _cell(way: str) -> Callable[[Row], str | None]:
    def of(row: Row) -> str | None:
        if row.get(way) is None:
            return None
        text = format(row[way], ".4f" if row["measure"] == "accuracy" else ".4g")
        return text if way == "compress" else f"{text} {row[f'signs {way}']}"

    return of


def sizes(report: Report) -> str:
    """Return the table of sets and sizes."""
    rows = [row for row in report["rows"] if row["what"] == "size"]
    columns = (
        Column("set", "set"),
        Column("KB", "kb"),
        *(Column(way, _cell(way)) for way in WAYS),
        Column("program", "program compress", ","),
        Column("of the booster", "program booster", ","),
        Column("chosen, first seed", "recipe"),
    )
    return "\n\n".join([table(rows, columns), measured_by(report)])


def forests(report: Report) -> str:
    """Return the table of the forest and the models of a fiftieth of its bytes."""
    columns = [
        Column("set", "set"),
        Column("RandomForest(100)", "forest", ".4g"),
    ]
    for count, told in zip(COUNTS, ("scikit-learn's file", "our exact header"), strict=True):
        columns += [
            Column(f"bytes of {told}", f"{count} bytes", ","),
            Column("best of 1/50 of them", f"{count} small", ".4g"),
            Column("its bytes", f"{count} small bytes", ","),
            Column("points ahead", f"{count} points", "+.2f"),
        ]
    columns.append(Column("processor seconds of compress", "cpu_s", ".0f"))
    return table([row for row in report["rows"] if row["what"] == "forest"], columns)
