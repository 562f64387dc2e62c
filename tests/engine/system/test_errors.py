"""The tree of errors, as its module draws it."""

import re

from oversight.engine import errors


def test_the_tree_of_errors_names_every_class():
    drawn = re.findall(r"^[│├└─ ]*([A-Z]\w+)(?:  |$)", errors.__doc__ or "", re.MULTILINE)
    defined = [name for name, each in vars(errors).items() if isinstance(each, type)]
    assert sorted(drawn) == sorted(set(defined) - {"ClassVar", "Signals"})
