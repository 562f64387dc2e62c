"""What the user is told of an error, and the exit code that goes with it."""

import click

from oversight.cache.errors import CacheError, ReplayMiss, StoreFull
from oversight.engine.display.printable import printable
from oversight.engine.errors import DiskFull, EngineError, StoreFailed
from oversight.protocols.errors import ProtocolError

USAGE = 2
STOPPED = 3
MISSED = 5


def report_fault(fault: Exception) -> int:
    """Print an error of ours as one plain message, and give its exit code; raise any other."""
    if isinstance(fault, ReplayMiss):
        click.echo(printable(str(fault)), err=True)
        click.echo("  nothing was sent; to ask the models: oversight run, not in replay", err=True)
        return MISSED
    if isinstance(fault, (StoreFailed, StoreFull, DiskFull)):
        click.echo(printable(str(fault)), err=True)
        return STOPPED
    if isinstance(fault, (EngineError, ProtocolError, CacheError)):
        click.echo(printable(str(fault)), err=True)
        return USAGE
    if isinstance(fault, OSError) and fault.filename is not None:
        click.echo(f"{fault.filename}: {fault.strerror}", err=True)
        return USAGE
    raise fault
