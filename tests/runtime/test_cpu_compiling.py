"""What names a compiled kernel: the digest of every source that it may be made from."""

from __future__ import annotations

import pkgutil
from pathlib import Path

from bitvec.runtime import cpu
from bitvec.runtime.cpu import compiling


def test_a_change_in_any_module_of_the_package_changes_the_digest(tmp_path, monkeypatch):
    folder = Path(compiling.__file__).parent
    sources = sorted(path.relative_to(folder) for path in folder.rglob("*.py"))
    prefix = f"{cpu.__name__}."
    modules = {module.name for module in pkgutil.walk_packages(cpu.__path__, prefix)}
    named = {prefix + ".".join(source.with_suffix("").parts) for source in sources}
    assert modules | {cpu.__name__} == {name.removesuffix(".__init__") for name in named}
    for source in sources:
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).write_bytes((folder / source).read_bytes())
    shipped = compiling.digest()
    monkeypatch.setattr(compiling, "HERE", tmp_path)

    def digest() -> str:
        return compiling.digest.__wrapped__(tmp_path)

    before = digest()
    assert before == shipped
    seen = {before}
    for source in sources:
        content = (tmp_path / source).read_bytes()
        (tmp_path / source).write_bytes(content + b"#")
        assert digest() not in seen, source
        seen.add(digest())
        (tmp_path / source).write_bytes(content)
    assert digest() == before
    (tmp_path / sources[-1]).rename(tmp_path / "moved.py")
    assert digest() not in seen
