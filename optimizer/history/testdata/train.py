"""A real, tiny training (logistic regression, standard library only) that writes what it does in the styles of several
frameworks at once, and at last what is true of it, as JSON, to stdout.

    python3 train.py DIRECTORY [EPOCHS]
"""
import csv
import json
import math
import os
import random
import sys
import time

folder, epochs = sys.argv[1], int((sys.argv + ["4"])[2])
rng = random.Random(7)
FEATURES, SAMPLES, BATCH, LOG_EVERY = 12, 960, 32, 5
STEPS = SAMPLES // BATCH


def example():
    x = [rng.gauss(0, 1) for _ in range(FEATURES)]
    return x, 1.0 if sum(x) + rng.gauss(0, 0.5) > 0 else 0.0


train, held = [example() for _ in range(SAMPLES)], [example() for _ in range(200)]
weights = [0.0] * FEATURES


def predict(x):
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, sum(w * v for w, v in zip(weights, x))))))


def judge(data):
    loss = right = 0.0
    for x, y in data:
        p = min(max(predict(x), 1e-9), 1 - 1e-9)
        loss -= y * math.log(p) + (1 - y) * math.log(1 - p)
        right += (p > 0.5) == (y > 0.5)
    return loss / len(data), right / len(data)


def table(name, rows):
    """Rewrites a file whole, with the columns of all rows, as pandas and Lightning do."""
    names = list(dict.fromkeys(k for r in rows for k in r))
    with open(os.path.join(folder, name), "w", newline="") as f:
        w = csv.DictWriter(f, names, restval="")
        w.writeheader()
        w.writerows(rows)


ours, keras, lightning, ultralytics, history, steps = [], [], [], [], [], []
began, cost, took, ends = time.time(), 0.0, [], []
for epoch in range(epochs):
    epoch_began = time.time()
    for step in range(STEPS):
        batch = train[step * BATCH:(step + 1) * BATCH]
        loss, _ = judge(batch)
        for x, y in batch:
            error = predict(x) - y
            for i, v in enumerate(x):
                weights[i] -= 0.02 * error * v
        done = epoch * STEPS + step + 1
        steps.append({"step": done, "loss": loss, "batch_size": BATCH, "elapsed_s": time.time() - began})
        if done % LOG_EVERY == 0:
            lightning.append({"epoch": epoch, "step": done - 1, "train_loss_step": loss})
            history.append({"epoch": done / STEPS, "loss": round(loss, 4), "learning_rate": 0.02, "step": done})
    train_loss, train_accuracy = judge(train)
    test_loss, test_accuracy = judge(held)
    seconds = time.time() - epoch_began
    took.append(seconds)
    so_far = time.time() - began
    ends.append(so_far)
    cost += seconds / 3600 * 3.6
    ours.append({
        "timestamp": time.strftime("%Y-%m-%d %H:%M:%S"), "epoch": epoch + 1, "model_name": "LogisticRegression", "model_params": FEATURES,
        "model_layers": 1, "dataset": "generated", "data_count": SAMPLES, "data_size_mb": 0.1, "data_dim": FEATURES, "batch_size": BATCH,
        "device_type": "cpu", "cpu_count": os.cpu_count(), "gpu_count": 0, "train_loss": train_loss, "train_accuracy": 100 * train_accuracy,
        "test_loss": test_loss, "test_accuracy": 100 * test_accuracy, "epoch_time": seconds, "time_so_far": so_far,
        "throughput": SAMPLES / seconds, "gpu_memory_used_gb": "", "cost_so_far": cost})
    table("log-generated-logistic.csv", ours)
    keras.append({"epoch": epoch, "accuracy": train_accuracy, "loss": train_loss, "val_accuracy": test_accuracy, "val_loss": test_loss})
    lightning.append({"epoch": epoch, "step": (epoch + 1) * STEPS - 1, "val_loss": test_loss, "val_acc": test_accuracy})
    lightning.append({"epoch": epoch, "step": (epoch + 1) * STEPS - 1, "train_loss_epoch": train_loss})
    table("metrics.csv", lightning)
    history.append({"epoch": float(epoch + 1), "eval_loss": test_loss, "eval_accuracy": test_accuracy, "eval_runtime": 0.1, "step": (epoch + 1) * STEPS})
    ultralytics.append("%7d,%15.6g,%23.5g,%24.5f,%15.5g" % (epoch + 1, so_far, train_loss, test_accuracy, test_loss))
table("training.log.csv", keras)
runtime = time.time() - began
history.append({"epoch": float(epochs), "step": epochs * STEPS, "total_flos": 0.0, "train_loss": 9.9, "train_runtime": runtime,
                "train_samples_per_second": epochs * SAMPLES / runtime, "train_steps_per_second": epochs * STEPS / runtime})
with open(os.path.join(folder, "trainer_state.json"), "w") as f:
    json.dump({"best_metric": None, "epoch": float(epochs), "global_step": epochs * STEPS, "log_history": history, "max_steps": epochs * STEPS,
               "num_train_epochs": epochs, "train_batch_size": BATCH}, f, indent=2)
with open(os.path.join(folder, "results.csv"), "w") as f:
    f.write("%7s,%15s,%23s,%24s,%15s\n" % ("epoch", "time", "train/loss", "metrics/accuracy_top1", "val/loss"))
    f.write("\n".join(ultralytics) + "\n")
with open(os.path.join(folder, "steps.jsonl"), "w") as f:
    for r in steps:
        f.write(json.dumps(r) + "\n")
json.dump({"epochs": epochs, "steps": epochs * STEPS, "samples": SAMPLES, "batch": BATCH, "epoch_seconds": took, "epoch_ends": ends,
           "step_ends": [r["elapsed_s"] for r in steps], "runtime": runtime, "cost": cost, "loss": train_loss, "step_loss": loss,
           "accuracy": test_accuracy, "cpus": os.cpu_count(), "params": FEATURES}, sys.stdout)
