"""Readers of what is fetched: archives, files of sources, records of what was fetched."""

from __future__ import annotations

import io
import json
import tarfile
import tempfile
import zipfile
from pathlib import Path

from fuzz.reader import Reader
from fuzz.shells import ZIP
from tiepoint.datasets.download.archives import unpack
from tiepoint.datasets.download.install import read_record
from tiepoint.datasets.download.sources import read_sources


def _archives(root: Path) -> list[Path]:
    with zipfile.ZipFile(root / "a.zip", "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("set/1.txt", "one " * 50)
        out.writestr("set/b/2.txt", "two")
    for name, mode in (("b.tar", "w"), ("c.tar.gz", "w:gz")):
        with tarfile.open(root / name, mode) as tar:  # type: ignore[call-overload]
            for member in ("set/1.txt", "set/b/2.txt"):
                info = tarfile.TarInfo(member)
                info.size = 200
                tar.addfile(info, io.BytesIO(b"x" * 200))
    return sorted(root.iterdir())


def _unpacked(path: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        inside = Path(folder) / "a" / "b"
        inside.mkdir(parents=True)
        try:
            return unpack(path, inside, max_bytes=1 << 22)
        finally:
            outside = [p for p in Path(folder).rglob("*") if p.is_file() and inside not in p.parents]
            assert not outside, outside


def _sources(root: Path) -> list[Path]:
    evd = json.loads(read_sources()["evd"].model_dump_json())
    (root / "a.json").write_text(json.dumps({"format": 1, "sources": {"evd": evd}}))
    (root / "b.yaml").write_text(json.dumps({"format": 1, "sources": {"evd": evd}}, indent=1))
    return [root / "a.json", root / "b.yaml"]


def _record(root: Path) -> list[Path]:
    (root / "a.source.json").write_text(json.dumps({"files": [{"name": "a", "url": None, "sha256": "0"}]}))
    return [root / "a.source.json"]


READERS = [
    Reader("archives", _archives, _unpacked, ((".zip", ZIP),)),
    Reader("sources", _sources, read_sources),
    Reader("source record", _record, lambda p: read_record(p.with_name(p.name.removesuffix(".source.json")))),
]
