"""docs/python.md's Python, in its order, and what it prints."""
import contextlib
import io
import os
import re

import pytest

PAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "python.md")


def test_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with open(PAGE, encoding="utf-8") as f:
        blocks = re.findall(r"^```(python|text)\n(.*?)^```$", f.read(), re.M | re.S)
    scope, said = {}, io.StringIO()
    assert len(blocks) > 4
    for kind, text in blocks:
        if kind == "python":
            with contextlib.redirect_stdout(said):
                exec(text, scope)
        else:
            assert said.getvalue() == text
            said = io.StringIO()
    with pytest.raises(AssertionError, match="plain_weight_for_zero_centred"):
        scope["test_norm"]()
