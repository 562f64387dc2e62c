from urllib.parse import quote

import pytest

from oversight.engine.providers.secret import Secret


def escaped(key: str) -> dict[str, str]:
    """The key as servers may repeat it inside JSON text."""
    return {
        "as it is": key,
        "slashes escaped": key.replace("/", r"\/"),
        "one letter escaped": rf"\u{ord(key[0]):04x}{key[1:]}",
        "all escaped": "".join(rf"\u{ord(char):04X}" for char in key),
        "JSON within JSON": key.replace("/", r"\\/"),
        "as URLs do": quote(key, safe=""),
    }


SLASHED = "ABSKcanary/with+slashes/0123456789=="


@pytest.mark.parametrize("form", escaped(SLASHED).values(), ids=escaped(SLASHED))
def test_a_key_is_found_and_hidden_however_it_is_escaped(form: str) -> None:
    secret = Secret(SLASHED)
    assert secret.repeated(b"bad %s." % form.encode())
    assert secret.hidden(b"bad %s." % form.encode()) == b"bad [key]."
    assert secret.hidden_in(f"bad {form}.") == "bad [key]."
