"""Log writers that write as those of the frameworks do, without the frameworks: which columns, in which order, which form
of numbers, which line ends, when a file is written anew. The sources are named at each."""

import csv
import json
import os


class KerasCSVLogger:
    """keras/src/callbacks/csv_logger.py: the keys of the first epoch, sorted, and val_ columns always ("NA")."""

    def __init__(self, filename, append=False):
        self.filename, self.append, self.keys, self.append_header = filename, append, None, True

    def on_train_begin(self):
        if self.append and os.path.exists(self.filename):
            with open(self.filename) as f:
                self.append_header = not bool(len(f.readline()))
        self.csv_file = open(self.filename, "a" if self.append else "w")
        self.writer = self.keys = None

    def on_epoch_end(self, epoch, logs):
        if self.keys is None:
            self.keys = sorted(logs.keys())
            if not any(key.startswith("val_") for key in self.keys):
                self.keys.extend(["val_" + key for key in self.keys])
        if not self.writer:
            self.writer = csv.DictWriter(self.csv_file, fieldnames=["epoch"] + self.keys, dialect=csv.excel)
            if self.append_header:
                self.writer.writeheader()
        row = {"epoch": epoch}
        row.update((key, logs.get(key, "NA")) for key in self.keys)
        self.writer.writerow(row)
        self.csv_file.flush()

    def on_train_end(self):
        self.csv_file.close()


class LightningCSVLogger:
    """lightning/fabric/loggers/csv_logs.py, _ExperimentWriter: sparse rows; the file is written anew with a wider, sorted
    header when a metric is logged for the first time."""

    def __init__(self, log_dir):
        os.makedirs(log_dir, exist_ok=True)
        self.path, self.metrics, self.keys = os.path.join(log_dir, "metrics.csv"), [], []

    def log_metrics(self, metrics, step):
        self.metrics.append({**metrics, "step": step})

    def save(self):
        if not self.metrics:
            return
        new = set().union(*self.metrics) - set(self.keys)
        self.keys.extend(new)
        self.keys.sort()
        exists = os.path.isfile(self.path)
        if new and exists:
            with open(self.path, newline="") as file:
                old = list(csv.DictReader(file))
            with open(self.path, "w", newline="") as file:
                writer = csv.DictWriter(file, fieldnames=self.keys)
                writer.writeheader()
                writer.writerows(old)
        with open(self.path, "a" if exists else "w", newline="") as file:
            writer = csv.DictWriter(file, fieldnames=self.keys)
            if not exists:
                writer.writeheader()
            writer.writerows(self.metrics)
        self.metrics = []


class TrainerState:
    """transformers/trainer_callback.py, TrainerState, and what Trainer.log puts into log_history."""

    def __init__(self, max_steps, epochs, batch_size):
        self.state = {
            "best_global_step": None, "best_metric": None, "best_model_checkpoint": None, "epoch": 0, "eval_steps": 500,
            "global_step": 0, "is_hyper_param_search": False, "is_local_process_zero": True, "is_world_process_zero": True,
            "log_history": [], "logging_steps": 4, "max_steps": max_steps, "num_input_tokens_seen": 0,
            "num_train_epochs": epochs, "save_steps": 500, "stateful_callbacks": {"TrainerControl": {"args": {
                "should_epoch_stop": False, "should_log": False}, "attributes": {}}},
            "total_flos": 0.0, "train_batch_size": batch_size, "trial_name": None, "trial_params": None,
        }

    def log(self, logs, epoch, step):
        self.state["epoch"], self.state["global_step"] = epoch, step
        self.state["log_history"].append({**logs, "epoch": round(epoch, 4), "step": step})

    def save_to_json(self, path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as f:
            f.write(json.dumps(self.state, indent=2, sort_keys=True) + "\n")


class UltralyticsCSV:
    """ultralytics/engine/trainer.py, save_metrics. style "new" is 8.3 and later, "old" 8.0 (padded names, no time)."""

    def __init__(self, path, style):
        self.path, self.style = path, style

    def save_metrics(self, epoch, seconds, metrics):
        keys, values = list(metrics.keys()), list(metrics.values())
        if self.style == "new":
            n, names, values = len(metrics) + 2, ["epoch", "time", *keys], [epoch + 1, seconds, *values]
            name, number = "%s,", "%.6g,"
        else:
            n, names, values = len(metrics) + 1, ["epoch", *keys], [epoch, *values]
            name, number = "%23s,", "%23.5g,"
        header = "" if os.path.exists(self.path) else (name * n % tuple(names)).rstrip(",") + "\n"
        with open(self.path, "a") as f:
            f.write(header + (number * n % tuple(values)).rstrip(",") + "\n")


class JSONLines:
    """One object a line, as in the history of Weights & Biases: keys with a slash, or nested."""

    def __init__(self, path, nested):
        self.file, self.nested = open(path, "w"), nested

    def log(self, row):
        if self.nested:
            out = {}
            for key, value in row.items():
                at, parts = out, key.split("/")
                for part in parts[:-1]:
                    at = at.setdefault(part, {})
                at[parts[-1]] = value
            row = out
        self.file.write(json.dumps(row) + "\n")

    def close(self):
        self.file.close()
