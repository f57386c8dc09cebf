"""CSVLogger: a line a step, whatever comes in which order."""

import pytest

from estimator_train.loggers import CSVLogger


def test_a_step_is_one_line_and_a_new_metric_a_new_column(tmp_path):
    logger = CSVLogger(tmp_path / "run")
    logger.log_metrics(2, {"loss": 0.5})
    logger.log_metrics(4, {"loss": 0.25})
    logger.log_evaluation({"global_step": 4, "loss": 0.375, "image": b"png", "rates": [1, 2]})
    assert (tmp_path / "run" / "metrics.csv").read_text() == "step,loss,val_loss\n2,0.5,\n4,0.25,0.375\n"


def test_the_next_step_is_appended_because_rewriting_takes_longer(tmp_path):
    logger, path = CSVLogger(tmp_path), tmp_path / "metrics.csv"
    logger.log_metrics(2, {"loss": 0.5, "rate": 0.1})
    file = path.stat().st_ino
    logger.log_metrics(4, {"loss": 0.25})
    assert (path.stat().st_ino, path.read_text()) == (file, "step,loss,rate\n2,0.5,0.1\n4,0.25,\n")
    CSVLogger(tmp_path).log_metrics(6, {"epoch": 1, "loss": 0.125})
    logger.log_metrics(8, {"loss": 0.0})
    assert path.read_text().splitlines() == ["step,epoch,loss,rate", "2,,0.5,0.1", "4,,0.25,", "6,1,0.125,", "8,,0.0,"]


def test_a_line_that_a_killed_process_left_unfinished_is_dropped(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,loss\n98,0.5\n10")
    CSVLogger(tmp_path).log_metrics(102, {"loss": 0.25})
    assert (tmp_path / "metrics.csv").read_text() == "step,loss\n98,0.5\n102,0.25\n"


def test_resuming_an_earlier_checkpoint_replaces_the_later_lines(tmp_path):
    first = CSVLogger(tmp_path)
    for step in (2, 4, 6):
        first.log_metrics(step, {"loss": float(step)})
    CSVLogger(tmp_path).log_metrics(4, {"loss": 0.5})
    assert (tmp_path / "metrics.csv").read_text() == "step,loss\n2,2.0\n4,0.5\n"


@pytest.mark.parametrize("text", ["epoch,loss\n1,2\n", "step,loss\none,2\n"])
def test_a_file_of_another_kind_is_left_alone_and_named(tmp_path, text):
    (tmp_path / "metrics.csv").write_text(text)
    with pytest.raises(ValueError, match=r"metrics.csv is not a CSV file with a column of steps; move it elsewhere"):
        CSVLogger(tmp_path)
    assert (tmp_path / "metrics.csv").read_text() == text
