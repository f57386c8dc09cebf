"""The lines that `estimator_train run` adds for habits of older scripts."""

import textwrap

import pytest
import tensorflow as tf
import warm_python

from estimator_train.compat import doctor

IMPORT = "import numpy as np\nimport tensorflow as tf\n"
MODEL = """
model = tf.keras.Sequential([tf.keras.layers.Dense(2, activation="softmax", input_shape=(4,))])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["acc"])
"""


@pytest.fixture
def lines(tmp_path):
    """Runs a script, after imports of NumPy and TensorFlow, and returns its lines on standard error."""

    def run(script, *flags):
        (tmp_path / "script.py").write_text(IMPORT + textwrap.dedent(script))
        done = warm_python.run(["-m", "estimator_train", "run", *flags, "script.py"], tmp_path, cwd=tmp_path)
        return done.stderr.splitlines()

    return run


def warned(lines, text):
    """Returns the lines of TensorFlow's logger that contain `text`."""
    return [line for line in lines if line.startswith("WARNING:tensorflow:") and text in line]


def test_an_optimizer_that_ignores_lr_is_named_with_what_to_write(lines):
    found = warned(lines("tf.keras.optimizers.Adam(lr=1e-4)\ntf.keras.optimizers.SGD(learning_rate=0.1)\n"), "lr=")
    (line,) = found
    assert "Adam(lr=0.0001) is trained with the default learning rate: write learning_rate=0.0001; see " in line
    assert line.endswith('"Keras optimizers in older scripts" in docs/migrating.md')


def test_a_script_is_warned_of_a_pair_that_was_not_tried(monkeypatch, warnings):
    monkeypatch.setattr(doctor.libraries, "untried_pair", lambda: "TensorFlow 1 was not tried with tf_keras 2")
    monkeypatch.delattr(tf, "estimator", raising=False)
    for watched in ("_watch_learning_rates", "_watch_devices"):
        monkeypatch.setattr(doctor, watched, lambda *_: None)
    doctor.watch()
    assert warnings == ["TensorFlow 1 was not tried with tf_keras 2"]


@pytest.mark.slow
def test_a_script_of_tensorflow_1_keeps_its_lr(lines):
    assert not warned(lines("tf.keras.optimizers.Adam(lr=1e-4)\n", "--tf1"), "lr=")


GPU_FIRST = """
with tf.device("/gpu:0"), tf.device("/cpu:0"):
    tf.Variable(1.0)
"""
STRATEGY = "strategy = tf.distribute.MirroredStrategy(['GPU:0', 'GPU:1'])\n"


@pytest.mark.parametrize(
    "script", [GPU_FIRST + STRATEGY, pytest.param(STRATEGY + GPU_FIRST, marks=pytest.mark.slow)], ids=["first", "last"]
)
def test_a_device_with_several_replicas_is_a_line(script, lines):
    (line,) = warned(lines(script, "--replicas", 2), "tf.device")
    assert "tf.device('/gpu:0') with 2 replicas: around the model or train it has no effect, and in a " in line


BRANCH = """
gpus = tf.config.experimental.list_physical_devices("GPU")
strategy = tf.distribute.MirroredStrategy() if gpus else tf.distribute.get_strategy()
print(tf.config.list_physical_devices("CPU"))
"""


def test_a_branch_on_gpus_is_a_line_where_replicas_stand_in_for_them(lines):
    (line,) = warned(lines(BRANCH, "--replicas", 2), "GPUs")
    assert "the script asks which GPUs there are, and there are none. If it creates its strategy" in line


def test_one_device_alone_is_no_line(lines):
    found = warned(lines(BRANCH + GPU_FIRST), "")
    assert not [line for line in found if "newest that was tried" not in line]


@pytest.mark.slow
def test_the_batch_of_a_step_over_replicas_is_a_line(lines):
    script = f"""{MODEL}
strategy = tf.distribute.MirroredStrategy(["GPU:0", "GPU:1"])
batch_size = 8 * strategy.num_replicas_in_sync

def input_fn():
    data = tf.data.Dataset.from_tensor_slices((np.ones((64, 4), "float32"), np.ones(64, "int64")))
    return data.repeat().batch(batch_size)

config = tf.estimator.RunConfig(train_distribute=strategy)
tf.keras.estimator.model_to_estimator(model, config=config).train(input_fn, steps=1)
"""
    (line,) = warned(lines(script, "--replicas", 2), "Each step takes")
    assert "Each step takes 32 examples over 2 replicas: the batch size of an input_fn is per replica; see" in line


@pytest.mark.slow
def test_a_metric_that_keras_chose_without_the_shapes_is_a_line(lines):
    script = f"""{MODEL}
def rows():
    for index in range(8):
        yield np.ones(4, "float32"), np.array([index % 2])

for shapes in (([4], [1]), None):
    def input_fn():
        return tf.data.Dataset.from_generator(rows, (tf.float32, tf.int64), shapes).batch(8)

    tf.get_logger().warning("shapes: %s", shapes)
    tf.keras.estimator.model_to_estimator(model).train(input_fn, steps=1)
"""
    found = [line.partition(", because")[0] for line in warned(lines(script), "")]
    assert [line for line in found if "temporary folder" not in line] == [
        "WARNING:tensorflow:shapes: ([4], [1])",
        "WARNING:tensorflow:shapes: None",
        'WARNING:tensorflow:Keras takes metrics=["acc"] for categorical_accuracy',
    ]


def test_a_fit_without_the_shapes_ends_with_what_to_give(lines):
    script = f"""{MODEL}
shapes = [8, 4], tf.TensorShape(None)
model.fit(tf.data.Dataset.from_generator(lambda: [(np.ones((8, 4)), np.ones(8))], (tf.float32, tf.int64), shapes))
"""
    *_, last = lines(script)
    assert last.startswith(
        'estimator_train: Keras reads from the shape of the labels what metrics=["acc"] means: give '
    )


def test_tensorflow_addons_ends_with_the_page_of_replacements(monkeypatch, tmp_path):
    line = 'tensorflow_addons ended with TensorFlow 2.15; see "Instead of tensorflow_addons" in docs/migrating.md'
    with pytest.raises(ImportError) as absent:
        import tensorflow_addons  # noqa: F401
    assert doctor.remedy(absent.value, None) == line
    # As its last release ends here: by an error about a module of another package.
    (tmp_path / "tensorflow_addons.py").write_text("import tensorflow.python.of_another_release\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ImportError) as broken:
        import tensorflow_addons  # noqa: F401
    assert doctor.remedy(broken.value, None) == line
    assert doctor.remedy(ModuleNotFoundError(name="addons"), "estimator_train run --tf1 script.py") is None


def test_a_tensorflow_1_name_within_dataset_map_is_pointed_to_tf1(lines):
    script = """
        def load(path):
            return tf.image.decode_jpeg(tf.read_file(path))

        tf.data.Dataset.from_tensor_slices(["a.jpg"]).map(load)
    """
    line = "estimator_train: tf.read_file belongs to TensorFlow 1; try: estimator_train run --tf1 script.py"
    assert lines(script)[-1] == line
    assert "belongs to" not in lines(script.replace("read_file", "read_fille"))[-1]
