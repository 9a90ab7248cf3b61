"""A run's metrics for TensorBoard, Weights & Biases and MLflow, by their own clients."""

import json
import logging
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from importlib.util import find_spec
from typing import Final

from nearsay.data.document import JsonValue
from nearsay.data.errors import BadInputError, MissingExtraError, NearsayError, first_line
from nearsay.training.run.run_environment import flat
from nearsay.training.run.run_folder import CLIENT_RUNS, TENSORBOARD, RunFolder

logger = logging.getLogger("nearsay")

# Logs the metrics of a step; ends the client's run, which failed or not.
_Opened = tuple[Callable[[int, dict[str, float]], object], Callable[[bool], object]]


class MetricsClient(StrEnum):
    """Where metrics can be logged to; also the extra, and the package to import."""

    TENSORBOARD = "tensorboard"
    WANDB = "wandb"
    MLFLOW = "mlflow"


def require_clients(names: Iterable[str]) -> None:
    """Raise MissingExtraError for a client that is not installed, BadInputError for one that is none."""
    for name in names:
        if name not in list(MetricsClient):
            raise BadInputError(f"metrics cannot be logged to {name!r}. Give {', '.join(MetricsClient)}")
        found = find_spec(name)
        if found is None or found.origin is None:  # a folder ./wandb, which its client makes, is no package
            raise MissingExtraError(f"Logging to {name}", name)


@contextmanager
def logged_to(
    names: Iterable[str], folder: RunFolder, step: int
) -> Iterator[Callable[[Mapping[str, JsonValue]], None]]:
    """Open the clients of a run that begins, or resumes after `step`; gives what takes the lines of its log.

    Raises as `require_clients`, and NearsayError for a client that does not open. One that fails later is
    warned of once and gets no more lines. What a resumed run repeats is logged once.
    """
    require_clients(names)
    file = folder.run / CLIENT_RUNS
    ids: dict[str, str] = json.loads(file.read_text("utf-8")) if names and file.is_file() else {}
    opened: dict[str, _Opened] = {}
    failed = True

    def attempt(name: str, call: Callable[..., object], *given: object) -> None:
        try:
            call(*given)
        except Exception as error:  # noqa: BLE001 - whatever a client raises, the training goes on
            opened.pop(name, None)
            logger.warning("%s takes no more of this run (%s); the training goes on", name, first_line(error))

    def tell(line: Mapping[str, JsonValue]) -> None:
        evaluation = line.get("evaluation")
        parts = {"train": line, "dev": evaluation if isinstance(evaluation, dict) else {}}
        values = {
            f"{part}/{name}": float(value)
            for part, metrics in parts.items()
            for name, value in metrics.items()
            if isinstance(value, int | float) and name != "step"
        }
        for name, (log, _) in [*opened.items()]:
            attempt(name, log, line["step"], values)

    try:
        for name in dict.fromkeys(names):
            try:
                opened[name] = _OPENERS[MetricsClient(name)](folder, ids, step)
            except Exception as error:
                raise NearsayError(
                    f"{name} cannot log this run ({first_line(error)}). Fix its settings, or leave it out "
                    "of --log-to"
                ) from error
        if ids:
            folder.write_run_json(CLIENT_RUNS, {**ids})
        yield tell
        failed = False
    finally:
        for name, (_, close) in [*opened.items()]:
            attempt(name, close, failed)


def _tensorboard(folder: RunFolder, _: dict[str, str], step: int) -> _Opened:
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(folder.run / TENSORBOARD), purge_step=step + 1 if step else None)
    if not step:
        writer.add_text("config", f"```json\n{json.dumps(folder.config(), indent=1)}\n```")

    def log(step: int, values: dict[str, float]) -> None:
        for name, value in values.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return log, lambda _: writer.close()


def _wandb(folder: RunFolder, ids: dict[str, str], _: int) -> _Opened:
    import wandb

    run = wandb.init(
        id=ids.setdefault("wandb", secrets.token_hex(8)),
        resume="allow",
        project=os.environ.get("WANDB_PROJECT", "nearsay"),
        name=os.environ.get("WANDB_NAME", folder.out.resolve().name),
        config=flat(folder.config()),
    )
    # Steps that were logged before a stop are behind wandb's own step, and it leaves them as they are.
    return lambda step, values: run.log(values, step=step), lambda failed: run.finish(exit_code=int(failed))


def _mlflow(folder: RunFolder, ids: dict[str, str], _: int) -> _Opened:
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # read when it is imported
    import mlflow

    begun = ids.get("mlflow")
    name = os.environ.get("MLFLOW_RUN_NAME", folder.out.resolve().name)
    run = mlflow.start_run(run_id=begun, run_name=None if begun else name)
    ids["mlflow"] = run.info.run_id
    if begun is None:
        mlflow.log_params(flat(folder.config()))
    client = mlflow.MlflowClient()
    logged = {
        (name, one.step)
        for name in run.data.metrics
        for one in client.get_metric_history(run.info.run_id, name)
    }

    def log(step: int, values: dict[str, float]) -> None:
        new = {name: value for name, value in values.items() if (name, step) not in logged}
        mlflow.log_metrics(new, step=step)

    return log, lambda failed: mlflow.end_run("FAILED" if failed else "FINISHED")


_OPENERS: Final = {
    MetricsClient.TENSORBOARD: _tensorboard,
    MetricsClient.WANDB: _wandb,
    MetricsClient.MLFLOW: _mlflow,
}
