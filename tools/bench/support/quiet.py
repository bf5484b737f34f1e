"""How much of the machine others took while a measurement ran."""

import os

TICKS = os.sysconf("SC_CLK_TCK")


def busy_and_stolen():
    """(seconds that the processors of this process were busy, seconds that their host kept from them) since it started."""
    mine = {f"cpu{number}" for number in os.sched_getaffinity(0)}
    busy = stolen = 0
    with open("/proc/stat", encoding="utf-8") as lines:
        for fields in map(str.split, lines):
            if fields[0] in mine:
                user, nice, system, _, _, irq, softirq, steal = map(int, fields[1:9])
                busy += user + nice + system + irq + softirq
                stolen += steal
    return busy / TICKS, stolen / TICKS


def seconds_of(pid):
    """Processor time of a process that still runs."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as line:
        fields = line.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Watch:
    """Since its construction: what share of the processors went to the host or to processes other than this one, its ended children
    and `servers`, processes of ours that go on running."""

    def __init__(self, servers=()):
        self.servers = list(servers)
        self.begin = self._now()

    def _now(self):
        busy, stolen = busy_and_stolen()
        times = os.times()
        own = times.user + times.system + times.children_user + times.children_system + sum(map(seconds_of, self.servers))
        return times.elapsed, busy - own, stolen

    def foreign_share(self):
        elapsed, foreign, stolen = (now - begin for now, begin in zip(self._now(), self.begin))
        return (max(0.0, foreign) + stolen) / max(elapsed * len(os.sched_getaffinity(0)), 1e-9)
