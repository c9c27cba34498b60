"""Figures of policies that ran the same steps several times, and who won.

A neighbour on a shared machine slows some steps of some runs, and speeds up
none. So of each step the run counts that took least, by the time that is
judged. How far that figure moves when any one repeat is left out is its noise.
"""

import statistics

# Of `even`, by CPU seconds.
LARGEST_IDLE_SHARE = 0.03
# Above it a run says nothing about a few per cent.
LARGEST_NOISE = 0.05


def least_of(repeats, key):
    """The steps of `repeats`, each as the repeat had it whose `key` is least."""
    return [min(same, key=lambda step: step[key])
            for same in zip(*repeats, strict=True)]


def rate(steps, key):
    """Trained tokens for each second of `key`."""
    return sum(s["trained_tokens"] for s in steps) / sum(s[key] for s in steps)


def noise_of(repeats, key):
    """Largest relative change of the rate when one repeat is left out."""
    if len(repeats) < 2:
        return float("inf")
    whole = rate(least_of(repeats, key), key)
    return max(abs(rate(least_of(repeats[:i] + repeats[i + 1:], key), key) /
                   whole - 1) for i in range(len(repeats)))


def idle_share(steps):
    """Of the slowest rank's CPU seconds: what the mean rank did not need."""
    return 1 - (sum(s["mean_cpu_seconds"] for s in steps) /
                sum(s["slowest_cpu_seconds"] for s in steps))


def check_noise(rows):
    noise = statistics.median(row["noise"] for row in rows)
    if noise <= LARGEST_NOISE:
        return []
    return [f"the machine was too noisy: figures move by {noise:.1%} with one "
            f"repeat, more than {LARGEST_NOISE:.0%}"]


def check_fastest(rows, key):
    """`even` is the fastest, or equal within the noise of the two."""
    figures = {row["policy"]: row for row in rows}
    even = figures["even"]
    problems = []
    for policy, row in figures.items():
        noise = max(row["noise"], even["noise"])
        ahead = row[key] / even[key] - 1
        if ahead > noise:
            problems.append(f"{policy} is {ahead:.1%} faster than even, beyond "
                            f"the noise of {noise:.1%}")
    return problems


def check_idle(rows):
    idle = next(r["idle_share"] for r in rows if r["policy"] == "even")
    if idle <= LARGEST_IDLE_SHARE:
        return []
    return [f"even: idle share {idle:.1%}, above {LARGEST_IDLE_SHARE:.0%}"]


def check_beats(rows, other, key):
    """`even` is faster than `other` beyond the noise of the two."""
    figures = {row["policy"]: row for row in rows}
    even, packed = figures["even"], figures[other]
    ahead = even[key] / packed[key] - 1
    noise = max(even["noise"], packed["noise"])
    if ahead > noise:
        return []
    return [f"even is {ahead:.1%} faster than {other}, within the noise of "
            f"{noise:.1%}"]
