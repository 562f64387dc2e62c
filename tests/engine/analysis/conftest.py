from tests.engine.kept_runs import runs

__all__ = ["runs"]
