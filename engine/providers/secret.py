"""The key of a provider, kept out of what is told: errors, logs, and bodies that are set aside."""

import re
from urllib.parse import quote

HIDDEN = "[key]"
"""What stands in the place of a key."""

_LONG = 16
_SHORT = 8
"""Characters. From the first on, a key is a secret whatever it is made of; from the second on if
letters and digits are mixed. Shorter and plainer ones are dummies (`EMPTY`, `none`, `test`, `1`),
and to hide those would spoil the words that they are."""

_START = 12
"""Characters of a long key that give it away: messages are cut, and so is what they quote."""

_ESCAPED = re.compile(rb"\\+u00([2-7][0-9a-fA-F])")
_SLASH = re.compile(rb"\\+/")


class Secret:
    """A key as others may repeat it: as it is, as JSON escapes it, or as URLs do.

    | where it is repeated                | what is done                                        |
    |-------------------------------------|-----------------------------------------------------|
    | headers; the body of an error       | hidden, before anything reads or quotes it           |
    | a 200 that holds no reply           | hidden, then read, quoted and set aside              |
    | a 200, beside the reply             | hidden; the reply is what it is without that          |
    | a 200, in the reply itself          | KeyRepeated: neither stored as it is nor changed     |

    A model knows no key. One in a reply was put there by a server that shows its callers' headers,
    so that every reply of it would have to be falsified to be stored, and the key is no secret any
    more: the run stops before another reply is paid for. Keys that are no secrets are never hidden.
    """

    __slots__ = ("_forms", "_key", "_quoted", "_text_forms")

    def __init__(self, key: str) -> None:
        mixed = bool(re.search(r"\d", key) and re.search(r"[A-Za-z]", key))
        guarded = len(key) >= _LONG or (mixed and len(key) >= _SHORT)
        self._key = key.encode() if guarded else b""
        self._quoted = quote(key, safe="").encode()
        forms = _forms(key) if guarded else r"(?!)"
        self._text_forms = re.compile(forms)
        self._forms = re.compile(forms.encode())

    def __repr__(self) -> str:
        return f"Secret({HIDDEN!r})"

    def repeated(self, body: bytes) -> bool:
        """Whether a body holds it, in any of its forms."""
        if not self._key:
            return False
        if self._key in body or self._quoted in body:
            return True
        if b"\\/" not in body and b"\\u00" not in body:
            return False
        plain = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), body)
        return self._key in _SLASH.sub(b"/", plain)

    def hidden(self, body: bytes) -> bytes:
        return self._forms.sub(HIDDEN.encode(), body) if self._key else body

    def hidden_in(self, text: str) -> str:
        return self._text_forms.sub(HIDDEN, text) if self._key else text


def _forms(key: str) -> str:
    """The pattern of a key in which any character may be escaped, any number of times."""

    def escaped(part: str) -> str:
        return "".join(
            rf"\\*(?:{re.escape(char)}|u00(?i:{ord(char):02x})|%(?i:{ord(char):02x}))"
            for char in part
        )

    if len(key) < _LONG:
        return escaped(key)
    cut = rf"{escaped(key[:_START])}(?:\\*[\w+/=.~%-])*"
    return f"{escaped(key)}|{cut}"
