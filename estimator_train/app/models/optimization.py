"""Optimization: settings of the optimizer, the learning rate and the loss for training a compiled model."""

import dataclasses
import math

SCHEDULES = ("constant", "cosine", "step", "one_cycle")
TESTED_RATES = (1e-7, 10.0)  # of the first and the last step of a learning rate range test
OPTIMIZERS = {
    name.lower(): name
    for name in (
        *("Adadelta", "Adafactor", "Adagrad", "Adam", "Adamax", "AdamW"),
        *("Ftrl", "Lion", "Nadam", "RMSprop", "SGD"),
    )
}
_POSITIVE = (lambda value: 0 < value < math.inf, "be positive")
_NOT_NEGATIVE = (lambda value: 0 <= value < math.inf, "not be negative")
_BELOW_1 = (lambda value: 0 <= value < 1, "be at least 0 and less than 1")
_RANGES = (
    dict.fromkeys(("learning_rate", "clip_norm", "learning_rate_factor"), _POSITIVE)
    | dict.fromkeys(("warmup_steps", "weight_decay"), _NOT_NEGATIVE)
    | dict.fromkeys(("momentum", "ema", "label_smoothing"), _BELOW_1)
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimization:
    """Changes to how a compiled model is trained. Attributes that are None change nothing.

    ::

        model = models.build_model("small_cnn", image_size=(64, 64), num_classes=4)
        optimization = Optimization(learning_rate=1e-3, optimizer="adamw", schedule="cosine", warmup_steps=100)
        recompile(model, optimization, steps=5000)  # from models.compilation
        phase = dataclasses.replace(optimization, learning_rate=1e-5)

    Attributes:
      learning_rate: the rate, or the highest rate of a `schedule`. None keeps the rate of the model's optimizer, or
        uses Keras' default for a new `optimizer`.
      optimizer: one of `OPTIMIZERS`, with Keras' defaults.
      momentum: momentum of SGD or RMSprop, 0 by Keras' defaults.
      schedule: "constant"; "cosine", falling to 0 at the last step (Loshchilov and Hutter, 2016); "step", falling to a
        tenth after half of the steps and a hundredth after three quarters (He et al., 2015); "one_cycle", rising from a
        25th, then falling along a cosine to a 250,000th (Smith and Topin, 2017).
      warmup_steps: steps over which the rate rises linearly from 0. With "one_cycle", the steps of its rise, by default
        three tenths of all steps.
      weight_decay: decoupled weight decay, Keras' `weight_decay` (Loshchilov and Hutter, 2017); each step reduces the
        weights by this share times the rate.
      clip_norm: maximum global norm of the gradients, Keras' `global_clipnorm`.
      ema: momentum of a moving average of the weights, such as 0.999. Training continues with the weights themselves;
        an Estimator evaluates, predicts and exports the average.
      label_smoothing: share of a label to spread over all classes (Szegedy et al., 2015).
      learning_rate_factor: factor for the rate, such as the number of replicas (Goyal et al., 2017).

    Raises:
      ValueError: a value is out of range, or there is no such optimizer or schedule.
    """

    learning_rate: float | None = None
    optimizer: str | None = None
    momentum: float | None = None
    schedule: str | None = None
    warmup_steps: int | None = None
    weight_decay: float | None = None
    clip_norm: float | None = None
    ema: float | None = None
    label_smoothing: float | None = None
    learning_rate_factor: float = 1

    def __post_init__(self) -> None:
        if self.optimizer is not None and self.optimizer not in OPTIMIZERS:
            raise ValueError(f"there is no optimizer {self.optimizer!r}; pass one of {', '.join(OPTIMIZERS)}")
        if self.schedule is not None and self.schedule not in SCHEDULES:
            raise ValueError(f"there is no schedule {self.schedule!r}; pass one of {', '.join(SCHEDULES)}")
        for name, (is_right, right) in _RANGES.items():
            value = getattr(self, name)
            if value is not None and not is_right(value):
                raise ValueError(f"{name} must {right}, got {value!r}")

    def check_steps(self, steps: int | None) -> None:
        """Raises ValueError if the schedule does not fit `steps`, the step at which training ends."""
        if self.schedule in (None, "constant"):
            return
        if steps is None:
            raise ValueError(f"the schedule {self.schedule!r} needs to know at which step training ends")
        if self.warmup_steps and self.warmup_steps >= steps:
            raise ValueError(f"warmup_steps {self.warmup_steps} leaves none of the {steps} steps for {self.schedule!r}")
