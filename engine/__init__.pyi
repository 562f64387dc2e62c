from .errors import EngineError as EngineError
from .errors import Halt as Halt
from .views.api.library import Report as Report
from .views.api.library import run as run
from .views.api.library import run_async as run_async
from .views.api.session import asking as asking
