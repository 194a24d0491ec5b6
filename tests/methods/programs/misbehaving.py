"""A program for tiepoint that misbehaves as its first argument says, at the item of the second argument."""

import json
import os
import struct
import sys
import time
from typing import Any

FAMILIES = ["patches", "pairs"]


def write(folder: str, name: str, values: list[float], shape: tuple[int, ...]) -> str:
    path = os.path.join(folder, name)
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        file.write(struct.pack(f"<{len(values)}f", *values))
    return path


def say(plain: dict[str, Any]) -> None:
    print(json.dumps(plain), flush=True)


def main() -> None:
    how, at = sys.argv[1], sys.argv[2]
    hello = json.loads(sys.stdin.readline())
    folder = hello["folder"]
    print("started", file=sys.stderr, flush=True)
    greeting = {
        "protocol": 1,
        "families": FAMILIES,
        "name": "odd",
        "batch": int(os.environ.get("BATCH", "1")),
    }
    if how == "greeting":
        greeting = {"protocol": 7}
    if how == "differs" and os.path.exists(at):
        greeting["version"] = 2
    say(greeting)
    while line := sys.stdin.readline():
        given = json.loads(line)
        for request in given.get("batch", [given]):
            ident, count = request["id"], request.get("count", 1)
            good = {
                "id": ident,
                "descriptors": write(folder, f"{ident}-out.npy", [1.0, ident] * count, (count, 2)),
            }
            if how == "differs":
                open(at, "w").close()
                os._exit(1)
            if at not in (request["item"], "any"):
                say(good)
            elif how == "crash":
                print("about to die", file=sys.stderr, flush=True)
                os._exit(3)
            elif how == "crash-once":
                if not os.path.exists(sys.argv[3]):
                    open(sys.argv[3], "w").close()
                    os.kill(os.getpid(), 11)
                say(good)
            elif how == "hang":
                time.sleep(1000)
            elif how == "order":
                say({**good, "id": ident + 1})
            elif how == "shape":
                say({**good, "descriptors": write(folder, "s.npy", [1.0] * 3, (3, 1))})
            elif how == "nan":
                say({**good, "descriptors": write(folder, "n.npy", [float("nan")] * 2 * count, (count, 2))})
            elif how == "garbage":
                print("Loading model … 100 %", flush=True)
            elif how == "half":
                print('{"id": 1, "descr', end="", flush=True)
                os._exit(0)
            elif how == "long":
                for _ in range(1 << 10):
                    sys.stdout.write("x" * (1 << 20))
            elif how == "outside":
                say({**good, "descriptors": sys.argv[3]})
            elif how == "link":
                os.symlink(sys.argv[3], os.path.join(folder, "link.npy"))
                say({**good, "descriptors": "link.npy"})
            elif how == "pickle":
                say({**good, "descriptors": "missing.npy"})
            elif how == "names":
                say({**good, "descriptor": "x"})
            elif how == "error":
                print("\n".join(f"line {i}" for i in range(40)), file=sys.stderr, flush=True)
                say({"id": ident, "error": "no patches today"})
            elif how == "children":
                for detached in (False, True):
                    if not os.fork():
                        if detached:
                            os.setsid()
                        with open(f"{sys.argv[3]}-{int(detached)}", "w") as file:
                            file.write(str(os.getpid()))
                        time.sleep(1000)
                while not all(
                    os.path.exists(f"{sys.argv[3]}-{i}") and os.path.getsize(f"{sys.argv[3]}-{i}")
                    for i in (0, 1)
                ):
                    time.sleep(0.01)
                os._exit(0)
            elif how == "flood":
                sys.stderr.write("y" * (1 << 22) + "\n")
                say(good)
            else:
                say(good)


if __name__ == "__main__":
    main()
