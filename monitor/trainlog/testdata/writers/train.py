"""Trains a logistic regression, and logs it through every writer into the directory that is given. truth.json has what was
logged."""

import json
import math
import os
import random
import sys

import events
import loggers

EPOCHS, SAMPLES, HELD, BATCH = 4, 160, 40, 20
STEPS = SAMPLES // BATCH
WALL = 1751364000.0  # when it began
SECONDS = 0.25  # a step


def data(n, rng):
    rows = []
    for _ in range(n):
        x = [rng.gauss(0, 1) for _ in range(4)]
        rows.append((x, 1 if x[0] + x[1] - x[2] + rng.gauss(0, 0.3) > 0 else 0))
    return rows


def predict(w, x):
    return 1 / (1 + math.exp(-sum(a * b for a, b in zip(w, x + [1]))))


def evaluate(w, rows):
    loss = -sum(math.log(max(1e-9, predict(w, x) if y else 1 - predict(w, x))) for x, y in rows) / len(rows)
    return loss, sum((predict(w, x) > 0.5) == bool(y) for x, y in rows) / len(rows)


def train(out):
    rng = random.Random(7)
    train_rows, held_rows, w = data(SAMPLES, rng), data(HELD, rng), [0.0] * 5

    keras = loggers.KerasCSVLogger(os.path.join(out, "training.csv"))
    lightning = loggers.LightningCSVLogger(os.path.join(out, "lightning_logs", "version_0"))
    state = loggers.TrainerState(EPOCHS * STEPS, EPOCHS, BATCH)
    new = loggers.UltralyticsCSV(os.path.join(out, "results.csv"), "new")
    old = loggers.UltralyticsCSV(os.path.join(out, "results_old.csv"), "old")
    flat = loggers.JSONLines(os.path.join(out, "flat.jsonl"), False)
    nested = loggers.JSONLines(os.path.join(out, "nested.jsonl"), True)
    torch = events.EventFile(os.path.join(out, "torch"), WALL)
    scalars = {s: events.EventFile(os.path.join(out, "torch", "Both_" + s), WALL, 1) for s in ("train", "test")}
    hf = events.EventFile(os.path.join(out, "hf", "runs", "Jul01_10-00-00_host"), WALL)
    pl = events.EventFile(os.path.join(out, "pl", "version_0"), WALL)
    keras_tb = {s: events.EventFile(os.path.join(out, "keras", s), WALL) for s in ("train", "validation")}
    truth = {"epochs": [], "steps": []}

    keras.on_train_begin()
    step = 0
    for epoch in range(EPOCHS):
        losses = []
        for at in range(0, SAMPLES, BATCH):
            batch = train_rows[at:at + BATCH]
            loss, _ = evaluate(w, batch)
            losses.append(loss)
            for x, y in batch:
                error = predict(w, x) - y
                w = [a - 0.5 / BATCH * error * b for a, b in zip(w, x + [1])]
            step += 1
            wall = WALL + SECONDS * step
            truth["steps"].append(loss)
            if step % 3 == 0:
                lightning.log_metrics({"train_loss_step": loss, "epoch": epoch}, step - 1)
                for tag, value in (("train_loss_step", loss), ("epoch", epoch)):
                    pl.add_scalar(tag, value, step - 1, wall)
            if step % 4 == 0:
                state.log({"loss": round(loss, 4), "grad_norm": 1.5, "learning_rate": 5e-05}, step / STEPS, step)
                for tag, value in (("train/loss", loss), ("train/learning_rate", 5e-05), ("train/epoch", step / STEPS)):
                    hf.add_scalar(tag, value, step, wall)
        train_loss, (held_loss, held_accuracy), (_, accuracy) = sum(losses) / STEPS, evaluate(w, held_rows), evaluate(w, train_rows)
        seconds = SECONDS * step
        wall = WALL + seconds
        truth["epochs"].append({"train_loss": train_loss, "train_accuracy": accuracy, "test_loss": held_loss, "test_accuracy": held_accuracy, "seconds": seconds})

        keras.on_epoch_end(epoch, {"loss": train_loss, "accuracy": accuracy, "val_loss": held_loss, "val_accuracy": held_accuracy})
        lightning.log_metrics({"val_loss": held_loss, "val_acc": held_accuracy, "epoch": epoch}, step - 1)
        lightning.log_metrics({"train_loss_epoch": train_loss, "epoch": epoch}, step - 1)
        lightning.save()
        state.log({"eval_loss": held_loss, "eval_accuracy": held_accuracy, "eval_runtime": 0.01, "eval_samples_per_second": 4000.0}, epoch + 1.0, step)
        state.save_to_json(os.path.join(out, "hf", "checkpoint-%d" % step, "trainer_state.json"))
        metrics = {"train/loss": train_loss, "metrics/accuracy_top1": held_accuracy, "metrics/accuracy_top5": 1, "val/loss": held_loss, "lr/pg0": 5e-05}
        new.save_metrics(epoch, seconds, metrics)
        old.save_metrics(epoch, seconds, metrics)
        row = {"train/loss": train_loss, "train/accuracy": accuracy, "val/loss": held_loss, "val/accuracy": held_accuracy,
               "epoch": epoch, "_step": step, "_runtime": seconds, "_timestamp": wall, "gradients/w": {"_type": "histogram", "bins": [1, 2]}}
        flat.log(row)
        nested.log(row)
        for tag, value in (("Loss/train", train_loss), ("Accuracy/train", accuracy), ("Loss/test", held_loss), ("Accuracy/test", held_accuracy)):
            torch.add_scalar(tag, value, epoch, wall)
        scalars["train"].add_scalar("Both", train_loss, epoch, wall)
        scalars["test"].add_scalar("Both", held_loss, epoch, wall)
        for tag, value in (("val_loss", held_loss), ("val_acc", held_accuracy), ("epoch", epoch), ("train_loss_epoch", train_loss), ("epoch", epoch)):
            pl.add_scalar(tag, value, step - 1, wall)
        for tag, value in (("eval/loss", held_loss), ("eval/accuracy", held_accuracy), ("eval/runtime", 0.01), ("train/epoch", epoch + 1)):
            hf.add_scalar(tag, value, step, wall)
        for s, values in (("train", (train_loss, accuracy)), ("validation", (held_loss, held_accuracy))):
            for tag, value in zip(("epoch_loss", "epoch_accuracy"), values):
                keras_tb[s].add_scalar(tag, value, epoch, wall, lambda t, v: events.tensor(t, v, packed=epoch % 2 == 1))
        keras_tb["validation"].add_scalar("evaluation_loss_vs_iterations", held_loss, step, wall, events.tensor)

    state.log({"train_runtime": SECONDS * step, "train_samples_per_second": BATCH / SECONDS, "train_steps_per_second": 1 / SECONDS,
               "total_flos": 1e9, "train_loss": 0.123}, float(EPOCHS), step)
    state.save_to_json(os.path.join(out, "trainer_state.json"))
    for tag, value in (("train/train_runtime", SECONDS * step), ("train/train_samples_per_second", BATCH / SECONDS), ("train/train_loss", 0.123), ("train/epoch", EPOCHS)):
        hf.add_scalar(tag, value, step, WALL + SECONDS * step)
    for w in (flat, nested, torch, hf, pl, *scalars.values(), *keras_tb.values()):
        w.close()
    keras.on_train_end()
    with open(os.path.join(out, "truth.json"), "w") as f:
        json.dump(truth, f)


train(sys.argv[1])
