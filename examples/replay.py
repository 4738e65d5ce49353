#!/usr/bin/env python3
"""Replays the measured speed of a training job, so that a machine without GPUs can stand for one with eight.

It computes nothing: it sleeps for the time that the profile says an epoch takes on the devices it was
given, divided by a speed-up, and writes the usual log with the seconds that really went by. So whatever
is tested with it is tested on replayed, not on measured, training; OPTIMIZE_REPLAY below says so to tools.

  REPLAY_PROFILE (--profile)   JSON, see replay-resnet18.json; default: that file
  REPLAY_HOST (--host)         YAML or JSON description of the machine; default: host-8gpu.yaml
  REPLAY_SPEEDUP (--speedup)   how many times faster than the profile; default: the profile's own
  CUDA_VISIBLE_DEVICES         the GPUs it is given (any ids, counted); unset: all of the described host
  OMP_NUM_THREADS              the CPUs it is given; unset: all of the described host
  OPTIMIZER_BATCH_SIZE, OPTIMIZER_EPOCHS, OPTIMIZER_RANDOM_SEED, OPTIMIZER_LOG,
  OPTIMIZER_CHECKPOINT_DIR, OPTIMIZER_RESUME: as in train_digits.py

SIGUSR1, SIGTERM and SIGINT: save the position, sleep for the checkpoint's time, leave with exit code 75.
"""
import os
import select
import signal
import sys

OPTIMIZE_REPLAY = True
EXIT_SAVED = 75
_wake_r, _wake_w = os.pipe()
os.set_blocking(_wake_w, False)
_stop = False


def request_stop(signum, frame):
    global _stop
    _stop = True


if __name__ == "__main__":
    signal.set_wakeup_fd(_wake_w)
    for s in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(s, request_stop)

import argparse
import json
import math
import re
import time
from random import Random

HERE = os.path.dirname(os.path.abspath(__file__))
COLUMNS = ("timestamp,epoch,total_epochs,model_name,model_params,dataset,data_count,batch_size,device_type,"
           "cpu_count,gpu_count,epoch_time,time_so_far,throughput,memory_used_gb").split(",")


# ---- what is replayed, and on what ----

def scalar(text):
    text = re.sub(r"(^|\s+)#.*$", "", text).strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    try:
        return float(text) if "." in text else int(text)
    except ValueError:
        return text


def read_host(path):
    """Reads the two-level YAML of a host description (keys, maps, and lists of maps), or JSON."""
    with open(path) as f:
        text = f.read()
    if text.lstrip().startswith("{"):
        return json.loads(text)
    host, inner, key = {}, None, None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        m = re.match(r"(\s*)(- +)?([A-Za-z_]+):(.*)$", line)
        if not m or m.group(1) + (m.group(2) or "") and key is None:
            sys.exit("replay: host description %s: line %d: want 'key: value', have %r" % (path, number, line))
        indent, dash, name, value = m.groups()
        if dash:  # the next map of a list
            inner = {}
            host[key] = (host[key] or []) + [inner]
        elif not indent:
            key, inner = name, None
            host[key] = [] if value.strip() == "[]" else scalar(value)
            continue
        elif inner is None:  # the first line of a map
            inner = host[key] = {}
        inner[name] = scalar(value)
    return host


def visible_gpus(host):
    there = sum(int(g.get("count", 1)) for g in host.get("gpus", []))
    ids = os.environ.get("CUDA_VISIBLE_DEVICES")
    if ids is None:
        return there
    known = []
    for one in ids.split(","):
        one = one.strip()
        if not one or one == "-1":
            break  # as CUDA does: what follows an invalid id is not seen
        known.append(one)
    return min(there, len(known))


def cpus_given(host):
    try:
        return max(1, int(os.environ["OMP_NUM_THREADS"].split(",")[0]))
    except (KeyError, ValueError):
        return max(1, int(host.get("cpus", 1)))


def epoch_seconds(profile, gpus, cpus, batch):
    """Seconds that one epoch takes on the real machine, without noise.

    Either profile["table"], rows of {gpus, cpus, batch, seconds} of which the nearest in log scale is
    taken, or profile["pollux"]: T_grad(m) = a_g + b_g*m for m samples on each GPU, T_sync = a_l + b_l*(K-2)
    for K > 1 GPUs of one node, T_iter = s*T_grad + (T_grad^g + T_sync^g)^(1/g) with s steps of gradient
    accumulation where more than max_local_batch samples meet on a GPU (Pollux, OSDI 2021, section 3).
    Loading is bound by cpu_seconds_per_sample on the CPUs given, and overlaps the computation.
    """
    samples = profile["samples_per_epoch"]
    if "table" in profile:
        def far(row):
            pairs = ((gpus, row.get("gpus", 0)), (cpus, row.get("cpus", cpus)), (batch, row.get("batch", batch)))
            return sum(abs((a + 0.5) / (b + 0.5) - 1) + abs((b + 0.5) / (a + 0.5) - 1) for a, b in pairs)
        return min(profile["table"], key=far)["seconds"]
    if gpus < 1:
        sys.exit("replay: profile %s was measured on GPUs only, and no GPU is visible; give at least one" % profile["model"])
    p = profile["pollux"]
    local = batch / gpus
    steps = max(1, math.ceil(local / profile.get("max_local_batch", local)))
    gradient = p["a_g"] + p["b_g"] * local / steps
    iteration = gradient
    if gpus > 1:
        g = p["gamma"]
        iteration = (gradient ** g + (p["a_l"] + p["b_l"] * (gpus - 2)) ** g) ** (1 / g)
    iteration += (steps - 1) * gradient
    computing = iteration * samples / batch
    loading = profile.get("cpu_seconds_per_sample", 0) * samples / cpus
    return max(computing, loading)


# ---- log and checkpoint ----

def open_log(path, keep):
    """Returns (file, last epoch that is there already)."""
    last, kept = 0, keep and os.path.exists(path) and os.path.getsize(path) > 0
    if kept:
        with open(path) as f:
            for line in f.read().splitlines()[1:]:
                fields = line.split(",")
                if len(fields) == len(COLUMNS) and fields[1].isdigit():
                    last = max(last, int(fields[1]))
    f = open(path, "a" if kept else "w")
    if not kept:
        f.write(",".join(COLUMNS) + "\n")
        f.flush()
    return f, last


def save(path, state):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path + ".tmp", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)


def nap(seconds):
    """Sleeps, but not past a request to stop. Returns the seconds that really went by."""
    began = time.monotonic()
    while not _stop:
        left = began + seconds - time.monotonic()
        if left <= 0:
            break
        select.select([_wake_r], [], [], left)
    return time.monotonic() - began


# ---- the replay ----

def parse_args():
    env = os.environ.get
    p = argparse.ArgumentParser(description="replay the measured speed of a training job")
    p.add_argument("--profile", default=env("REPLAY_PROFILE") or os.path.join(HERE, "replay-resnet18.json"))
    p.add_argument("--host", default=env("REPLAY_HOST") or os.path.join(HERE, "host-8gpu.yaml"))
    p.add_argument("--speedup", type=float, default=float(env("REPLAY_SPEEDUP") or 0))
    p.add_argument("--epochs", type=int, default=int(env("OPTIMIZER_EPOCHS") or 0))
    p.add_argument("--batch-size", type=int, default=int(env("OPTIMIZER_BATCH_SIZE") or 0))
    p.add_argument("--seed", type=int, default=int(env("OPTIMIZER_RANDOM_SEED") or 1))
    p.add_argument("--log", default=env("OPTIMIZER_LOG") or "log-replay.csv")
    p.add_argument("--checkpoint-dir", default=env("OPTIMIZER_CHECKPOINT_DIR") or "checkpoint-replay")
    p.add_argument("--resume", action="store_true", default=env("OPTIMIZER_RESUME") == "1")
    return p.parse_args()


def main():
    args = parse_args()
    try:
        with open(args.profile) as f:
            profile = json.load(f)
        host = read_host(args.host)
    except (OSError, ValueError) as e:
        sys.exit("replay: %s" % e)
    speedup = args.speedup if args.speedup > 0 else profile["speedup"]
    epochs = args.epochs or profile["epochs"]
    batch = args.batch_size or profile["batch_size"]
    gpus, cpus = visible_gpus(host), cpus_given(host)
    seconds = epoch_seconds(profile, gpus, cpus, batch) / speedup

    path = os.path.join(args.checkpoint_dir, "checkpoint.json")
    state = {"epoch": 1, "done": 0.0, "epoch_seconds": 0.0, "seconds": 0.0}  # done: share of the epoch
    if args.resume and os.path.exists(path):
        with open(path) as f:
            state = json.load(f)
    log, logged = open_log(args.log, args.resume)
    nap(profile.get("startup_seconds", 0) / speedup)
    while state["epoch"] <= epochs:
        noise = Random("%d/%d/%d/%d/%d" % (args.seed, state["epoch"], gpus, cpus, batch)).gauss(0, profile.get("noise_sd", 0))
        whole = seconds * max(0.2, 1 + noise)
        slept = nap(whole * (1 - state["done"]))
        state["epoch_seconds"] += slept
        if _stop:
            state["done"] = min(1.0, state["done"] + slept / whole)
            time.sleep(profile.get("checkpoint_seconds", 0) / speedup)
            save(path, state)
            print("saved in epoch %d at %.0f %%" % (state["epoch"], 100 * state["done"]), flush=True)
            return EXIT_SAVED
        state["seconds"] += state["epoch_seconds"]
        row = {"timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "epoch": state["epoch"],
               "total_epochs": epochs, "model_name": profile["model"], "model_params": profile.get("model_params", ""),
               "dataset": profile["dataset"], "data_count": profile["samples_per_epoch"], "batch_size": batch,
               "device_type": "replay", "cpu_count": cpus, "gpu_count": gpus,
               "epoch_time": round(state["epoch_seconds"], 6), "time_so_far": round(state["seconds"], 6),
               "throughput": round(profile["samples_per_epoch"] / state["epoch_seconds"], 3),
               "memory_used_gb": round(profile["memory_gib"] * 1.073741824, 3)}
        if state["epoch"] > logged:
            log.write(",".join(str(row[c]) for c in COLUMNS) + "\n")
            log.flush()
        print("epoch %d/%d  %.2f s on %d GPU, %d CPU (replayed, %g times faster)" % (
            state["epoch"], epochs, state["epoch_seconds"], gpus, cpus, speedup), flush=True)
        state = {"epoch": state["epoch"] + 1, "done": 0.0, "epoch_seconds": 0.0, "seconds": state["seconds"]}
        save(path, state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
