"""Interleaved rounds: every side once per round, in an order that rotates; a disturbed round is repeated."""

import statistics

import figures
from support.quiet import Watch

MAX_FOREIGN_SHARE = 0.06


class Rounds:
    """Measures sides against each other. `repeats`: rounds that may be dropped and done again, in all."""

    def __init__(self, number, repeats):
        self.number = number
        self.repeats = repeats

    def measure(self, sides, servers=()):
        """`sides`: {name: function of `show` that returns {metric: number}}; {name: {metric: [a number per round]}}."""
        results = {name: {} for name in sides}
        shown, done, turn = True, 0, 0
        while done < self.number:
            watch = Watch(servers)
            order = list(sides)[turn % len(sides):] + list(sides)[:turn % len(sides)]
            measured = {name: sides[name](shown) for name in order}
            shown, turn = False, turn + 1
            if not self._keep(watch.foreign_share()):
                continue
            done += 1
            for name, metrics in measured.items():
                for metric, value in metrics.items():
                    results[name].setdefault(metric, []).append(value)
        return results

    def _keep(self, foreign_share):
        if foreign_share <= MAX_FOREIGN_SHARE:
            return True
        text = f"others took {100 * foreign_share:.1f} % of the processors in this round"
        if self.repeats == 0:
            figures.note(f"{text}; it counts, as no more rounds may be repeated")
            return True
        self.repeats -= 1
        figures.note(f"{text}; it is repeated")
        return False


def fastest(variants, measure):
    """The settings among `variants` with which `measure(settings)` is largest. Each is tried once, before what counts."""
    if len(variants) == 1:
        return variants[0]
    rates = [measure(settings) for settings in variants]
    best = max(range(len(variants)), key=rates.__getitem__)
    tried = ", ".join(f"{settings}: {rate:.4g}" for settings, rate in zip(variants, rates))
    figures.note(f"the peer's settings: {tried}; the first of the best counts")
    return variants[best]


def total(metrics):
    """One number for `fastest`: the product of rates does not care for their scales."""
    return statistics.geometric_mean(metrics.values())
