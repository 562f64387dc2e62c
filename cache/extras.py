"""The packages of an extra, and the command that installs them."""


def install_command(extra: str) -> str:
    """The command that installs what an extra asks for, by the names of its packages.

    Named by the extra it would work only where the distribution itself comes from an index.
    """
    # Where all is installed nothing of this is needed, and it takes some time to import.
    from importlib.metadata import PackageNotFoundError, requires

    try:
        wanted = requires("oversight-bench") or []
    except PackageNotFoundError:
        wanted = []
    marked = [each.partition(";") for each in wanted]
    packages = [name.strip() for name, _, when in marked if f"'{extra}'" in when.replace('"', "'")]
    named = packages or [f"oversight-bench[{extra}]"]
    return " ".join(["python -m pip install", *(f"'{each}'" for each in named)])
