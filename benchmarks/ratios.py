"""Computes from pairs of measurements how many times ours is ahead."""

import statistics


def compare(ours, theirs, answers, measure):
    """Returns the row that compares side `ours` with side `theirs`, from the `answers` of `run_in_turn`.

    Each ratio is their value over ours in one pair, so above 1 is better for us.

    Args:
      measure: the key of the answers to compare, "wall" or "peak".
    """
    pairs = list(zip(answers[ours], answers[theirs], strict=True))
    ratios = [of_theirs[measure] / of_ours[measure] for of_ours, of_theirs in pairs]
    return {
        "ours": ours,
        "theirs": theirs,
        "ratio": statistics.median(ratios),
        "ratios": ratios,
        "cpu_ratio": statistics.median(of_theirs["cpu"] / of_ours["cpu"] for of_ours, of_theirs in pairs),
        f"{measure}_ours": [of_ours[measure] for of_ours, _ in pairs],
        f"{measure}_theirs": [of_theirs[measure] for _, of_theirs in pairs],
    }


def spread(row):
    """Returns the median, lowest and highest of a row's ratios, and their number, as text."""
    ratios = row["ratios"]
    return f"{row['ratio']:.2f}", f"{min(ratios):.2f}", f"{max(ratios):.2f}", str(len(ratios))
