"""Values inside script elements: JSON that cannot end the element it stands in."""

import json
from typing import Any

from markupsafe import Markup

__all__ = ["as_script"]


def as_script(value: Any) -> Markup:
    """The value as JSON in which no tag and no comment can begin.

    >>> print(as_script({"token": "</script>"}))
    {"token":"\\u003c/script\\u003e"}
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for sign in "<>&\u2028\u2029":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)
