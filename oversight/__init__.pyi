from .engine.api.comparing import compare as compare
from .engine.api.experiment import Experiment as Experiment
from .engine.api.experiment import Trial as Trial
from .engine.api.library import Report as Report
from .engine.api.library import run as run
from .engine.api.library import run_async as run_async
from .engine.api.plotting import plot as plot
from .engine.api.session import asking as asking
