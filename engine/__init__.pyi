from .api.library import Report as Report
from .api.library import run as run
from .api.library import run_async as run_async
from .api.session import asking as asking
from .errors import EngineError as EngineError
from .errors import Halt as Halt
