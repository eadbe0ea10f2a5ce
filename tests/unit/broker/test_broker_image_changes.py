"""What one metadata image changes is found without a look into all that it leaves alone."""

from __future__ import annotations

from tailrace.metadata.image import changed


def test_what_is_another_object_or_gone_or_new_has_changed() -> None:
    same, other = ["kept"], ["kept"]
    assert changed({"a": same, "b": same, "c": same}, {"a": same, "b": other, "d": same}) == ["b", "d", "c"]
    one = {"a": same}
    assert changed(one, one) == []
