from .errors import EngineError as EngineError
from .errors import Halt as Halt
from .library import Report as Report
from .library import run as run
from .library import run_async as run_async
from .session import asking as asking
