"""Names that other tools use for our flags, to suggest ours when a user types them."""

import click

# Without dashes; from yolo, timm, Lightning, Keras and Hugging Face's run_image_classification.py.
SYNONYMS = {
    "--accumulate-steps": "accumulate accumulate-grad-batches grad-accum gradient-accumulation-steps",
    "--augment": "aa aug augmentation augmentations auto-augment data-augmentation transforms",
    "--batch-size": "b batch bs per-device-train-batch-size train-batch-size",
    "--cache": "cache-images",
    "--checkpoint": "ckpt ckpt-path",
    "--class-weights": "balance class-weight cls-weights weighted-loss",
    "--clip-norm": "clip clip-grad clip-grad-norm clip-gradients grad-clip gradient-clip-val max-grad-norm",
    "--config": "cfg config-file",
    "--data-dir": "data data-path dataset-dir dataset-path train-data train-dir",
    "--dataset": "dataset-name ds",
    "--dropout": "drop drop-rate dropout-rate",
    "--dry-run": "fast-dev-run n",
    "--early-stopping": "early-stop patience",
    "--ema": "ema-decay model-ema",
    "--epochs": "e max-epochs n-epochs nb-epochs num-epochs num-train-epochs",
    "--evaluate-every": "eval-every eval-freq eval-interval eval-steps val-check-interval val-freq validation-freq",
    "--find-learning-rate": "auto-lr-find find-lr lr-find lr-finder",
    "--freeze": "freeze-backbone freeze-layers frozen trainable",
    "--gpus": "accelerator cuda device devices gpu-ids ngpus num-gpus",
    "--image-size": "img-size imgsz input-shape input-size resolution",
    "--jit-compile": "compile jit torch-compile xla",
    "--keep-best": "load-best-model-at-end save-best save-best-only",
    "--label-smoothing": "label-smoothing-factor ls smoothing",
    "--learning-rate": "eta lr lr0 rate",
    "--limit": "fraction limit-train-batches max-samples max-train-samples",
    "--log": "logger loggers report-to track tracker",
    "--max-steps": "iterations max-iter max-iters num-steps steps total-steps train-steps",
    "--mixed-precision": "amp bf16 fp16 half precision",
    "--model": "arch architecture backbone m model-name model-name-or-path net network",
    "--model-dir": "checkpoint-dir default-root-dir log-dir logdir output output-dir project save-dir",
    "--monitor": "metric-for-best-model objective watch",
    "--optimizer": "opt optim optimiser",
    "--out": "o output output-dir",
    "--phases": "stages unfreeze",
    "--quiet": "q silent",
    "--recompute": "checkpoint-activations gradient-checkpointing remat",
    "--replicas": "num-devices num-processes num-replicas nproc-per-node world-size",
    "--resume": "continue restart resume-from-checkpoint",
    "--save-checkpoints-steps": "checkpoint-every save-every save-freq save-interval save-period save-steps",
    "--schedule": "cos-lr lr-scheduler lr-scheduler-type lr-schedule sched scheduler",
    "--top": "k top-k topk",
    "--seed": "manual-seed random-seed random-state",
    "--task": "problem task-type",
    "--verbose": "debug log-level v",
    "--warmup-steps": "num-warmup-steps warmup",
    "--weight-decay": "decay l2 wd",
    "--weights": "init-weights initial-weights pretrained",
}


def meant_by(error: click.NoSuchOption) -> list[str]:
    """Returns the command's flags that mean the same as an unknown one, or else those spelled like it."""
    flags = {flag for param in error.ctx.command.params for flag in param.opts} if error.ctx else set()
    typed = error.option_name.lstrip("-").replace("_", "-").lower()
    same = [flag for flag, names in SYNONYMS.items() if flag in flags and typed in names.split()]
    same += [flag for flag in (f"--{typed}",) if flag in flags]  # with an underscore, or in capitals
    return same or list(error.possibilities or [])
