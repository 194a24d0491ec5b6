# SPDX-License-Identifier: BSD-3-Clause
"""Kill programs (exec:), guardians, workers and tiepoint at random moments; compare scores and leftovers.

    python bench/kill_exec.py --kills 200 [--seed 0] [--jobs 1,2] [--work DIR]

The script works as `kill.py` on patches with the Python reference client. Each life of the command is
disturbed once at a random moment. A killed program or guardian must not change the result of the command; a
killed worker or main process is followed by another life. The content of the store must equal that without
kills. Afterwards no process of the life, no exchange folder and no temporary file may be left. Needs Linux.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import platform
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import kill
from tiepoint.core.processes import is_alive

CLIENT = Path(__file__).parents[1] / "docs" / "exec" / "pixels.py"
VICTIMS = ("the program", "the guardian", "a worker", "the main process", "the group")
SHARED = Path("/dev/shm")


def marked(place: Path) -> dict[int, str]:
    """Return the running processes whose environment names the temporary folder of a life."""
    mark, found = f"TMPDIR={place}/tmp\0".encode(), {}
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environ.read_bytes() and is_alive(int(environ.parent.name)):
                line = environ.with_name("cmdline").read_bytes()
                own = b"guardian.py" in line
                kind = "the guardian" if own else "the program" if b"pixels.py" in line else "other"
                found[int(environ.parent.name)] = kind
    return found


def folders() -> set[str]:
    """Return the exchange folders of dead processes in shared memory."""
    names = (name.split("-") for name in os.listdir(SHARED) if name.startswith("tiepoint-"))
    return {"-".join(n) for n in names if len(n) > 3 and n[2].isdigit() and not is_alive(int(n[2]))}


@dataclass
class Campaign:
    """Kills stores until a number is reached; `bad` lists differences and leftovers."""

    work: Path
    cases: list[kill.Case]
    rng: random.Random
    before: set[str] = field(default_factory=folders)
    killed: Counter[str] = field(default_factory=Counter)
    stores: int = 0
    bad: list[str] = field(default_factory=list)

    def run(self, kills: int) -> None:
        """Build stores by lives that are killed."""
        shown = 0
        while self.killed.total() < kills:
            print(*self.bad[shown:], sep="\n", end="\n" if self.bad[shown:] else "", flush=True)
            shown = len(self.bad)
            case, place = self.cases[self.stores % len(self.cases)], self.work / f"store{self.stores}"
            kill.new_place(place)
            for left in range(self.rng.randint(1, 4), -1, -1):
                if self.life(case, place, may_die=left > 0) == 0:
                    break
            else:
                continue
            self.stores += 1
            found = kill.differences(case.expected, kill.contents(place / "store"))
            found += kill.left_behind(place)
            self.bad += [f"{place.name} ({case.name}): {b}" for b in found]
            shutil.rmtree(place)
            if self.stores % 20 == 0:
                print(f"{self.killed.total()} kills, {len(self.bad)} differences and leftovers", flush=True)

    def life(self, case: kill.Case, place: Path, *, may_die: bool) -> int | None:
        """Run one life and kill one of its processes; return its exit code."""
        arguments = [*case.arguments, "--store", str(place / "store")]
        pid = kill.start(kill.Life(arguments, str(place)), fresh=False)
        delay_s = self.rng.uniform(0, case.seconds[False]) if may_die else kill.STUCK_S
        code, victim = kill.ended(pid, delay_s), None
        if code is None:
            victim = self.strike(pid, place)
            code = kill.ended(pid, kill.STUCK_S)
        until = time.monotonic() + kill.GONE_S
        while True:
            left, rest = marked(place), folders() - self.before
            if not (left or rest) or time.monotonic() > until:
                break
            time.sleep(0.02)
        for process in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        if running := [*left.values(), *map(str, kill.all_gone(pid))]:
            self.bad.append(f"{place.name}: {victim} killed, processes left: {running}")
        if rest:
            self.bad.append(f"{place.name}: {victim} killed, folders left: {rest}")
            self.before |= rest
        allowed = {"a worker": (0, 1), "the main process": (-9, 0), "the group": (-9, 0)}.get(
            str(victim), (0,)
        )
        if code not in allowed:
            said = (place / "said").read_text(errors="replace").strip()[-800:]
            self.bad.append(f"{place.name} ({case.name}): code {code}, {victim} killed: {said}")
        return code

    def strike(self, pid: int, place: Path) -> str | None:
        """Kill a random process of a life; return which, None if there is none of that kind now."""
        wanted = self.rng.choices(VICTIMS, (6, 2, 3, 3, 2))[0]
        found = [p for p, kind in marked(place).items() if kind == wanted]
        if wanted == "a worker":
            found = [p for p, line in kill.of_session(pid).items() if b"spawn_main" in line and p != pid]
        elif wanted in ("the main process", "the group"):
            found = [pid]
        if not found:
            return None
        with contextlib.suppress(ProcessLookupError):
            if wanted == "the group":
                os.killpg(pid, signal.SIGKILL)
            else:
                os.kill(self.rng.choice(found), signal.SIGKILL)
            self.killed[wanted] += 1
            return wanted
        return None


def main() -> int:
    """Build the expected stores, then kill and compare."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", default="1,2")
    parser.add_argument("--work", type=Path, help="new folder, not removed; default a temporary one")
    options = parser.parse_args()
    print(f"{platform.platform()}, Python {platform.python_version()}, {os.cpu_count()} cores")
    work = (options.work or Path(tempfile.mkdtemp(prefix="kill-"))).resolve()
    work.mkdir(parents=True, exist_ok=True)
    kill.prepare()
    importlib.import_module("tiepoint.methods.programs.method")
    data = kill.make_data(work)["patches"]
    line = ["run", f"exec:{sys.executable} {CLIENT}", *data[data.index("--task") :]]
    cases = [kill.Case(f"jobs {n}", [*line, "--jobs", n], int(n)) for n in options.jobs.split(",")]
    for case in cases:
        if wrong := kill.undisturbed(case, work):
            print(f"without kills: {wrong}")
            return 1
    campaign = Campaign(work, cases, random.Random(options.seed))
    campaign.run(options.kills)
    print(", ".join(f"{n} x {what}" for what, n in campaign.killed.most_common()))
    kills, bad = campaign.killed.total(), len(campaign.bad)
    print(f"kills {kills}, stores {campaign.stores}, differences and leftovers {bad}")
    print(*(f"  {b}" for b in campaign.bad[:40]), sep="\n")
    if options.work is None:
        shutil.rmtree(work, ignore_errors=True)
    return 1 if campaign.bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
