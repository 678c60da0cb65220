"""What runs the steps of a job: this process, processes of this machine, or workers of celery on any.

Belongs here: the executor that the settings name, and jobs that another process can put together again.
Does not belong here: which steps there are (assets), one run of a job (pipelines.job_runs).

Celery comes with an extra of the package, ``threadhouse[celery]``, because most houses need none.
"""

import logging
import warnings
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableJob, build_reconstructable_job

from threadhouse.retrieval.errors import ConfigurationError
from threadhouse.stores.settings import Executor, Settings


def executor_for(settings: Settings) -> dg.ExecutorDefinition:
    """The executor that ``EXECUTOR`` names.

    Raises:
        ConfigurationError: Celery's package is not installed, or it is not told which broker to use.
    """
    match settings.executor:
        case Executor.IN_PROCESS:
            # One process: eight empty assets take 1.6 s in it and 22 s in a process each, and it opens each shard once.
            return dg.in_process_executor
        case Executor.MULTIPROCESS:
            # As many processes at a time as there are cores, each with its own model in memory.
            return dg.multiprocess_executor
        case Executor.CELERY:
            # Named by variables, so that no address with a password gets into the run's configuration.
            require_celery(settings)
            results = "EXECUTOR_RESULTS_URL"
            backend = {"env": results} if settings.executor_results_url else "rpc://"
            return import_module("dagster_celery").celery_executor.configured(
                {"broker": {"env": "EXECUTOR_URL"}, "backend": backend}, name="celery_of_this_house"
            )


def run_worker(settings: Settings, concurrency: int) -> None:
    """Take steps from the broker until somebody stops this process.

    Args:
        concurrency: Steps at a time, each in a process of its own.

    Raises:
        ConfigurationError: As `executor_for`.
    """
    broker = require_celery(settings)
    results = settings.executor_results_url
    app = import_module("dagster_celery.make_app").make_app(
        {"broker": broker, "backend": results.get_secret_value() if results else "rpc://"}
    )
    app.conf.worker_prefetch_multiplier = 1  # a step that waits must not lie with a busy worker
    import_module("dagster_celery.tasks").create_task(app)
    app.worker_main(
        ["worker", f"--concurrency={concurrency}", "--queues=dagster", "--loglevel=WARNING"]
    )


def require_celery(settings: Settings) -> str:
    """The address of the broker. Raises ConfigurationError when there is none or the package is not installed."""
    if settings.executor_url is None:
        message = "A worker needs EXECUTOR=celery and EXECUTOR_URL, the address of its broker."
        raise ConfigurationError(message)
    if find_spec("dagster_celery") is None:
        message = (
            "EXECUTOR=celery needs a package that is not installed; install threadhouse[celery]."
        )
        raise ConfigurationError(message)
    # Both are said at every run of ours: its releases follow those of Dagster by some days, and each step makes its task anew.
    warnings.filterwarnings("ignore", "Found version mismatch between", UserWarning)
    warnings.filterwarnings("ignore", "Task name 'execute_plan' is already", UserWarning)
    return settings.executor_url.get_secret_value()


def rebuildable_job(settings: Settings, job_name: str, log: Path) -> ReconstructableJob:
    """A job that the processes of an executor put together again by themselves.

    Args:
        log: The run's log file. A process on another machine, where its folder is not, writes none.
    """
    # A machine of a cluster has a home of its own; processes of this one share it.
    home = None if settings.executor_url else str(settings.home)
    return build_reconstructable_job(
        __name__,
        "rebuild_job",
        reconstructable_kwargs={"job_name": job_name, "home": home, "log": str(log)},
    )


def rebuild_job(*, job_name: str, home: str | None, log: str) -> dg.JobDefinition:
    """What a process of an executor calls; see `rebuildable_job`."""
    from threadhouse.pipelines.definitions import build_definitions, build_resources

    path = Path(log)
    with ExitStack() as stack:
        loggers = (
            {"console": stack.enter_context(file_logger(job_name, path))}
            if path.parent.is_dir()
            else None
        )
        definitions = build_definitions(
            Settings.from_environment(), resources=build_resources(home), loggers=loggers
        )
        # The file stays open for as long as this process works at the run.
        stack.pop_all()
    return definitions.resolve_job_def(job_name)


@contextmanager
def file_logger(name: str, path: Path) -> Generator[dg.LoggerDefinition, None, None]:
    """A logger that writes a run's events into its file; a terminal gets the progress bar and the summary instead."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    python_logger = logging.Logger(name, logging.DEBUG)
    python_logger.addHandler(handler)
    try:
        yield dg.LoggerDefinition(
            lambda _context: python_logger, description="Writes the run's events into its log file."
        )
    finally:
        handler.close()
