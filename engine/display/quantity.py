"""Counts, amounts and durations, as people read them."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 question`, `1,200 questions`. plural: where it is not the noun and an s."""
    return f"{count:,} {noun if count == 1 else plural or f'{noun}s'}"


def signed(value: float | None, digits: int = 2) -> str:
    """`+0.40`, `-0.38`, `–` for None; what rounds to nothing has no sign."""
    if value is None:
        return "–"
    text = f"{value:+.{digits}f}"
    return text[1:] if float(text) == 0 else text


def short(amount: float) -> str:
    """Two or three digits and a unit: `950`, `4.2k`, `830k`, `71M`."""
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if amount >= size:
            return f"{amount / size:.{0 if amount >= 10 * size else 1}f}{unit}"
    return f"{amount:.0f}"


def duration(seconds: float) -> str:
    """`0:00:06`; days are counted in hours."""
    whole = round(seconds)
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"
