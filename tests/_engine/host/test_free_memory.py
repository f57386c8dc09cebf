"""Free memory is the machine's, or the container's if that is less."""

import pytest

from estimator_train._engine.host import free_memory

GB = 2**30


@pytest.fixture
def system(tmp_path, monkeypatch):
    """Writes the kernel's files from a dict of texts by name; the machine's always exist."""
    monkeypatch.setattr(free_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(free_memory, "_CGROUP", tmp_path)

    def write(texts):
        for name, text in {"meminfo": f"MemTotal: {2**26} kB\nMemAvailable: {2**24} kB\n", **texts}.items():
            (tmp_path / name).parent.mkdir(exist_ok=True)
            (tmp_path / name).write_text(text)

    return write


def test_a_system_that_does_not_tell_has_no_limit(system):
    assert free_memory.free_memory() == float("inf")
    system({"meminfo": "MemTotal: 8 kB\n"})  # an old kernel's
    assert free_memory.free_memory() == float("inf")


@pytest.mark.parametrize("texts", [{}, {"memory.max": "max\n", "memory.current": f"{60 * GB}\n"}])
def test_a_machine_has_what_is_available(texts, system):
    system(texts)
    assert free_memory.free_memory() == 16 * GB


@pytest.mark.parametrize(
    ("limit", "used", "parts", "cache"),
    [
        ("memory.max", "memory.current", "memory.stat", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "memory/memory.stat", "total_inactive_file"),
    ],
    ids=["cgroup 2", "cgroup 1"],
)
def test_a_container_can_have_the_page_cache_of_files_that_were_read(limit, used, parts, cache, system):
    system({limit: f"{8 * GB}\n", used: f"{7 * GB}\n", parts: f"anon {GB}\n{cache} {5 * GB}\nactive_file 3\n"})
    assert free_memory.free_memory() == 6 * GB
