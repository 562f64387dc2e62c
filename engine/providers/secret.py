"""A provider's key, to be kept out of errors, logs, replies and quarantined bodies."""

import re
from urllib.parse import quote

HIDDEN = "[key]"
"""Text that replaces a key."""

_LONG = 16
_SHORT = 8
"""Characters. A key of `_LONG` or more is a secret whatever it is made of; one of `_SHORT` or more
if letters and digits are mixed. Others are dummies (`EMPTY`, `none`, `test`, `1`), and hiding
those would spoil ordinary words."""

_START = 12
"""First characters of a long key that are hidden alone too: messages may cut what they quote."""

_ESCAPED = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_SLASH = re.compile(rb"\\+/")


class Secret:
    """Finds and hides a key in the forms in which servers repeat it: plain, JSON- or URL-escaped.

    | where it is repeated                | what is done                                        |
    |-------------------------------------|-----------------------------------------------------|
    | headers; the body of an error       | hidden, before anything reads or quotes it           |
    | a 200 that holds no reply           | hidden, then read, quoted and set aside              |
    | a 200, beside the reply             | hidden; the reply is what it is without that          |
    | a 200, in the reply itself          | KeyRepeated: neither stored as it is nor changed     |

    Models never see the key. One in a reply was put there by a server that shows its callers'
    headers: its replies could only be stored falsified, and the key has leaked, so the run stops
    before another reply is paid for. Dummy keys are never hidden.
    """

    __slots__ = ("_forms", "_key", "_quoted", "_text_forms", "guarded")

    def __init__(self, key: str) -> None:
        mixed = bool(re.search(r"\d", key) and re.search(r"[A-Za-z]", key))
        guarded = len(key) >= _LONG or (mixed and len(key) >= _SHORT)
        self.guarded = guarded
        """Whether there is a key to hide, and no dummy."""
        self._key = key.encode() if guarded else b""
        self._quoted = quote(key, safe="").encode()
        forms = _forms(key) if guarded else r"(?!)"
        self._text_forms = re.compile(forms)
        self._forms = re.compile(forms.encode())

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def repeated(self, body: bytes) -> bool:
        """Whether a body holds the key in any of its forms."""
        if not self._key:
            return False
        if self._key in body or self._quoted in body:
            return True
        if b"\\/" not in body and b"\\u00" not in body:
            return False
        plain = _ESCAPED.sub(lambda escape: bytes.fromhex(escape[1].decode()), body)
        return self._key in _SLASH.sub(b"/", plain)

    def hidden(self, body: bytes) -> bytes:
        return self._forms.sub(HIDDEN.encode(), body) if self._key else body

    def hidden_in(self, text: str) -> str:
        return self._text_forms.sub(HIDDEN, text) if self._key else text


def _forms(key: str) -> str:
    """Regular expression for a key, any character of which may be escaped any number of times."""

    def escaped(part: str) -> str:
        return "".join(
            rf"\\*(?:{re.escape(char)}|u00(?i:{ord(char):02x})|%(?i:{ord(char):02x}))"
            for char in part
        )

    if len(key) < _LONG:
        return escaped(key)
    cut = rf"{escaped(key[:_START])}(?:\\*[\w+/=.~%-])*"
    return f"{escaped(key)}|{cut}"
