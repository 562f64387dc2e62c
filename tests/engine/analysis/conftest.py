from tests.engine.kept_runs import kept

__all__ = ["kept"]
