"""Interleaved rounds: every side once per round, in an order that rotates; a disturbed round is repeated."""

import statistics

import figures
from support.quiet import Watch

MAX_FOREIGN_SHARE = 0.06
TRIES = 2


class Results(dict):
    """{side: {metric: [a number per round]}}. `foreign_share`: of the processors, what others took in the worst round that counts."""

    foreign_share = 0.0

    def median(self, side, metric):
        return statistics.median(self[side][metric])


class Rounds:
    """Measures sides against each other. `repeats`: rounds that may be dropped and done again, in all."""

    def __init__(self, number, repeats=None):
        self.number = number
        self.repeats = 2 * number if repeats is None else repeats

    def measure(self, sides, servers=()):
        """`sides`: {name: function of `show` that returns {metric: number}}; `servers`: processes of theirs that go on running."""
        results = Results({name: {} for name in sides})
        shown, done, turn = True, 0, 0
        while done < self.number:
            watch = Watch(servers)
            order = list(sides)[turn % len(sides):] + list(sides)[:turn % len(sides)]
            measured = {name: sides[name](shown) for name in order}
            shown, turn = False, turn + 1
            foreign_share = watch.foreign_share()
            if not self._keep(foreign_share):
                continue
            done += 1
            results.foreign_share = max(results.foreign_share, foreign_share)
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
    """The settings among `variants` with which `measure(settings)` is largest: the better of two tries each, before what counts."""
    if len(variants) == 1:
        return variants[0]
    rates = [max(tries) for tries in zip(*([measure(settings) for settings in variants] for _ in range(TRIES)))]
    best = max(range(len(variants)), key=rates.__getitem__)
    tried = ", ".join(f"{settings}: {rate:.4g}" for settings, rate in zip(variants, rates))
    figures.note(f"the peer's settings: {tried}; the first of the best counts")
    return variants[best]
