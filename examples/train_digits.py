#!/usr/bin/env python3
"""Trains a small network to read 8x8 digits. Python standard library only (3.8 or newer).

The training is real: a 64-32-10 multilayer perceptron, cross-entropy, mini-batch gradient descent,
on generated images of digits (drawn glyph, random shift, random noise). Each mini-batch is cut into
16 chunks; worker processes compute the gradients of the chunks, the main process adds them in a fixed
order, takes the step and, once an epoch, evaluates. So the same seed gives the same network with any
number of workers and with any number of interruptions.

What it takes from its environment (a flag of the same meaning wins):
  OMP_NUM_THREADS           worker processes; else as many as CPUs may be used
  OPTIMIZER_EPOCHS, OPTIMIZER_BATCH_SIZE, OPTIMIZER_RANDOM_SEED
  OPTIMIZER_LOG             the CSV to write, one row an epoch; else ./log-digits-mlp.csv
  OPTIMIZER_CHECKPOINT_DIR  where checkpoint.json goes; else ./checkpoint-digits-mlp
  OPTIMIZER_RESUME          1: go on from the checkpoint, if there is one

SIGUSR1, SIGTERM and SIGINT: save at the next mini-batch and leave with exit code 75.
"""
import os
import signal
import sys

EXIT_SAVED = 75  # EX_TEMPFAIL: stopped on request, a checkpoint is there
_stop = False


def request_stop(signum, frame):
    global _stop
    _stop = True


def install_handlers():
    for s in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
        signal.signal(s, request_stop)


if __name__ == "__main__":
    install_handlers()  # before the slow imports: a request during start-up must not kill us

import argparse
import json
import mmap
import struct
import time
from array import array
from math import exp, log, sqrt, tanh
from operator import mul
from random import Random

MODEL = "digits-mlp"
INPUTS, HIDDEN, CLASSES = 64, 32, 10
PARAMS = INPUTS * HIDDEN + HIDDEN + HIDDEN * CLASSES + CLASSES
CHUNKS = 16  # a mini-batch is summed in this many pieces, whoever computes them
TRAIN, TEST = 2560, 1000

GLYPHS = """
.###. ..#.. .###. ####. ...#. ##### .###. ##### .###. .###.
#...# .##.. #...# ....# ..##. #.... #.... ....# #...# #...#
#..## ..#.. ....# ....# .#.#. ####. #.... ...#. #...# #...#
#.#.# ..#.. ...#. .###. #..#. ....# ####. ..#.. .###. .####
##..# ..#.. ..#.. ....# ##### ....# #...# ..#.. #...# ....#
.###. .###. ##### ####. ...#. ####. .###. ..#.. .###. .###.
"""


# ---- data ----

def make_data(rng, count):
    """Returns count images (64 floats in -0.3..0.7, row by row) and their digits."""
    rows = [line.split() for line in GLYPHS.split("\n") if line]
    # pixel for each noise byte: ink 0.5..1, paper 0 (mostly)..0.4, moved so that the mean is near 0
    ink = [min(16, 8 + (b * 10 >> 8)) / 16 - 0.3 for b in range(256)]
    paper = [max(0, (b * 12 >> 8) - 6) / 16 - 0.3 for b in range(256)]
    drawn = []  # drawn[digit]: for each shift, the 64 tables that turn a noise byte into a pixel
    for d in range(CLASSES):
        shifts = []
        for top in range(3):
            for left in range(3):
                tables = [paper] * INPUTS
                for y, row in enumerate(rows):
                    for x, c in enumerate(row[d]):
                        if c == "#":
                            tables[(top + y) * 8 + left + x] = ink
                shifts.append(tables)
        drawn.append(shifts)
    images, labels = [], []
    for i in range(count):
        d = i % CLASSES
        noise = rng.getrandbits(8 * INPUTS).to_bytes(INPUTS, "little")
        tables = drawn[d][rng.randrange(len(drawn[d]))]
        images.append([t[b] for t, b in zip(tables, noise)])
        labels.append(d)
    return images, labels


def epoch_order(seed, epoch, count):
    order = list(range(count))
    Random(seed * 1000003 + epoch).shuffle(order)
    return order


# ---- network ----

def initial_weights(rng):
    a, b = 1 / sqrt(INPUTS), 1 / sqrt(HIDDEN)
    w = [rng.uniform(-a, a) for _ in range(INPUTS * HIDDEN)] + [0.0] * HIDDEN
    return w + [rng.uniform(-b, b) for _ in range(HIDDEN * CLASSES)] + [0.0] * CLASSES


def layers(w):
    """Cuts the flat parameters into (hidden rows, hidden biases, output rows, output biases)."""
    n = INPUTS * HIDDEN
    w1 = [w[i:i + INPUTS] for i in range(0, n, INPUTS)]
    b1 = w[n:n + HIDDEN]
    m = n + HIDDEN
    w2 = [w[i:i + HIDDEN] for i in range(m, m + HIDDEN * CLASSES, HIDDEN)]
    return w1, b1, w2, w[-CLASSES:]


def forward(net, x):
    """Returns (hidden activations, class probabilities)."""
    w1, b1, w2, b2 = net
    h = [tanh(b + sum(map(mul, row, x))) for row, b in zip(w1, b1)]
    z = [b + sum(map(mul, row, h)) for row, b in zip(w2, b2)]
    top = max(z)
    e = [exp(v - top) for v in z]
    s = sum(e)
    return h, [v / s for v in e]


def gradient(net, images, labels, chosen):
    """Returns (flat gradient summed over the chosen samples, loss sum, number right)."""
    w1, b1, w2, b2 = net
    columns = list(zip(*w2))
    g1 = [[0.0] * INPUTS for _ in range(HIDDEN)]
    g2 = [[0.0] * HIDDEN for _ in range(CLASSES)]
    gb1, gb2 = [0.0] * HIDDEN, [0.0] * CLASSES
    loss, right = 0.0, 0
    for i in chosen:
        x, y = images[i], labels[i]
        h, p = forward(net, x)
        loss -= log(max(p[y], 1e-300))
        right += p[y] == max(p)
        p[y] -= 1.0  # now the error of the output layer
        back = [(1.0 - a * a) * sum(map(mul, p, col)) for a, col in zip(h, columns)]
        g2 = [[g + d * a for g, a in zip(row, h)] for row, d in zip(g2, p)]
        g1 = [[g + d * a for g, a in zip(row, x)] for row, d in zip(g1, back)]
        gb2 = [g + d for g, d in zip(gb2, p)]
        gb1 = [g + d for g, d in zip(gb1, back)]
    flat = []
    for row in g1:
        flat += row
    flat += gb1
    for row in g2:
        flat += row
    return flat + gb2, loss, right


def evaluate(w, images, labels):
    """Returns (mean loss, share right), or None when a stop was requested meanwhile."""
    net = layers(w)
    loss, right = 0.0, 0
    for x, y in zip(images, labels):
        if _stop:
            return None
        p = forward(net, x)[1]
        loss -= log(max(p[y], 1e-300))
        right += p[y] == max(p)
    return loss / len(images), right / len(images)


# ---- worker processes ----

ORDER = struct.Struct("<qqq")  # epoch, first and last+1 position in the epoch's order
SLOT = PARAMS + 2  # of one chunk: gradient, loss, number right


def chunk_bounds(first, last, c):
    size = -(-(last - first) // CHUNKS)
    return min(last, first + c * size), min(last, first + (c + 1) * size)


class Workers:
    """n forked processes; weights and gradients pass through shared memory, orders through pipes.

    A worker leaves when its pipe closes, so none outlives the main process however that ends.
    """

    def __init__(self, n, images, labels, seed):
        self.n = n
        self.shared = memoryview(mmap.mmap(-1, 8 * (PARAMS + CHUNKS * SLOT + n))).cast("d")
        self.pids, self.orders, self.answers = [], [], []
        for k in range(n):
            order_r, order_w = os.pipe()
            answer_r, answer_w = os.pipe()
            pid = os.fork()
            if pid == 0:
                for fd in self.orders + self.answers + [order_w, answer_r]:
                    os.close(fd)
                code = 1
                try:
                    self.serve(k, order_r, answer_w, images, labels, seed)
                    code = 0
                finally:
                    os._exit(code)
            os.close(order_r)
            os.close(answer_w)
            self.pids.append(pid)
            self.orders.append(order_w)
            self.answers.append(answer_r)

    def serve(self, k, order_r, answer_w, images, labels, seed):
        for s in (signal.SIGUSR1, signal.SIGTERM, signal.SIGINT):
            signal.signal(s, signal.SIG_IGN)  # the main process decides; it closes the pipe
        known, order = None, []
        while True:
            message = os.read(order_r, ORDER.size)
            if len(message) < ORDER.size:
                return
            epoch, first, last = ORDER.unpack(message)
            if epoch != known:
                known, order = epoch, epoch_order(seed, epoch, len(images))
            net = layers(self.shared[:PARAMS].tolist())
            for c in range(k * CHUNKS // self.n, (k + 1) * CHUNKS // self.n):
                a, b = chunk_bounds(first, last, c)
                flat, loss, right = gradient(net, images, labels, order[a:b])
                at = PARAMS + c * SLOT
                self.shared[at:at + SLOT] = array("d", flat + [loss, right])
            self.shared[PARAMS + CHUNKS * SLOT + k] = time.process_time()
            try:
                os.write(answer_w, b".")
            except BrokenPipeError:
                return

    def step(self, w, epoch, first, last):
        """Returns (flat gradient sum, loss sum, number right) of one mini-batch."""
        self.shared[:PARAMS] = array("d", w)
        for fd in self.orders:
            os.write(fd, ORDER.pack(epoch, first, last))
        for k, fd in enumerate(self.answers):
            if not os.read(fd, 1):
                sys.exit("train_digits: worker %d (pid %d) died" % (k, self.pids[k]))
        slots = [self.shared[PARAMS + c * SLOT:PARAMS + (c + 1) * SLOT].tolist() for c in range(CHUNKS)]
        total = list(map(sum, zip(*slots)))  # in chunk order: the same on any number of workers
        return total[:PARAMS], total[-2], int(total[-1])

    def cpu_seconds(self):
        """CPU time of all workers so far."""
        return sum(self.shared[PARAMS + CHUNKS * SLOT:])

    def close(self):
        for fd in self.orders + self.answers:
            os.close(fd)
        for pid in self.pids:
            os.waitpid(pid, 0)


# ---- what it leaves: log and checkpoint ----

COLUMNS = ("timestamp,epoch,total_epochs,model_name,model_params,model_layers,dataset,data_count,data_size_mb,"
           "batch_size,device_type,cpu_count,gpu_count,train_loss,train_accuracy,test_loss,test_accuracy,"
           "epoch_time,time_so_far,throughput,memory_used_gb,cpu_percent").split(",")


class Log:
    """The CSV: one row an epoch, written whole and at once."""

    def __init__(self, path, keep):
        self.last = 0  # last epoch that is already there
        text = ""
        if keep and os.path.exists(path):
            with open(path) as f:
                text = f.read()
            at = COLUMNS.index("epoch")
            for line in text.splitlines()[1:]:
                fields = line.split(",")
                if len(fields) == len(COLUMNS) and fields[at].isdigit():
                    self.last = max(self.last, int(fields[at]))
        self.file = open(path, "a" if text else "w", buffering=1)
        if not text:
            self.file.write(",".join(COLUMNS) + "\n")
        elif not text.endswith("\n"):
            self.file.write("\n")

    def write(self, row):
        if row["epoch"] <= self.last:
            return
        self.file.write(",".join(str(row.get(c, "")) for c in COLUMNS) + "\n")
        self.file.flush()


def save(directory, state):
    """Writes the checkpoint so that a crash leaves the old one or the new one, never half."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "checkpoint.json")
    with open(path + ".tmp", "w") as f:
        json.dump(state, f)
        f.flush()
        os.fsync(f.fileno())
    os.replace(path + ".tmp", path)
    fd = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def load(directory):
    path = os.path.join(directory, "checkpoint.json")
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return json.load(f)


def memory_gb(pids):
    """Proportional memory of the processes in GB (10^9 bytes), shared pages counted once; "" when unknown."""
    total = 0
    try:
        for pid in pids:
            with open("/proc/%d/smaps_rollup" % pid) as f:
                total += sum(int(line.split()[1]) for line in f if line.startswith("Pss:"))
    except OSError:
        return ""
    return round(total * 1024 / 1e9, 4)


# ---- the training ----

def cpus_given():
    try:
        n = int(os.environ.get("OMP_NUM_THREADS", "").split(",")[0])
        if n > 0:
            return n
    except ValueError:
        pass
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def parse_args():
    env = os.environ.get
    p = argparse.ArgumentParser(description="train a small network on generated digits")
    p.add_argument("--epochs", type=int, default=int(env("OPTIMIZER_EPOCHS") or 120))
    p.add_argument("--batch-size", type=int, default=int(env("OPTIMIZER_BATCH_SIZE") or 128))
    p.add_argument("--seed", type=int, default=int(env("OPTIMIZER_RANDOM_SEED") or 1))
    p.add_argument("--lr", type=float, default=0.8)
    p.add_argument("--workers", type=int, default=cpus_given())
    p.add_argument("--samples", type=int, default=TRAIN, help="training images")
    p.add_argument("--log", default=env("OPTIMIZER_LOG") or "log-%s.csv" % MODEL)
    p.add_argument("--checkpoint-dir", default=env("OPTIMIZER_CHECKPOINT_DIR") or "checkpoint-%s" % MODEL)
    p.add_argument("--resume", action="store_true", default=env("OPTIMIZER_RESUME") == "1")
    args = p.parse_args()
    for name in ("epochs", "batch_size", "workers", "samples"):
        if getattr(args, name) < 1:
            p.error("--%s must be at least 1" % name.replace("_", "-"))
    return args


def start_state(args):
    state = load(args.checkpoint_dir) if args.resume else None
    if state is None:
        return {"seed": args.seed, "samples": args.samples, "epoch": 1, "position": 0, "loss": 0.0, "right": 0,
                "epoch_seconds": 0.0, "seconds": 0.0, "weights": initial_weights(Random(args.seed))}
    if (state["seed"], state["samples"]) != (args.seed, args.samples):
        sys.exit("train_digits: the checkpoint in %s is of another run (seed %s, %s samples)"
                 % (args.checkpoint_dir, state["seed"], state["samples"]))
    return state


def train_epoch(workers, state, args):
    """Goes on from state's position to the end of the epoch; False when a stop was requested before."""
    rate = args.lr * (1.0 - 0.9 * min(1.0, (state["epoch"] - 1) / args.epochs))
    while state["position"] < args.samples:
        if _stop:
            return False
        first = state["position"]
        last = min(args.samples, first + args.batch_size)
        grad, loss, right = workers.step(state["weights"], state["epoch"], first, last)
        scale = rate / (last - first)
        state["weights"] = [w - scale * g for w, g in zip(state["weights"], grad)]
        state["position"] = last
        state["loss"] += loss
        state["right"] += right
    return True


def main():
    args = parse_args()
    state = start_state(args)
    images, labels = make_data(Random(args.seed * 7919 + 1), args.samples)
    test_images, test_labels = make_data(Random(args.seed * 7919 + 2), TEST)
    workers = Workers(min(args.workers, CHUNKS), images, labels, args.seed)
    logfile = Log(args.log, keep=args.resume)
    if "row" in state:
        logfile.write(state["row"])  # a crash between the checkpoint and its row
    began, cpu = time.monotonic(), time.process_time() + workers.cpu_seconds()
    while state["epoch"] <= args.epochs:
        finished = train_epoch(workers, state, args) and evaluate(state["weights"], test_images, test_labels)
        now = time.monotonic()
        state["epoch_seconds"] += now - began
        if not finished:
            save(args.checkpoint_dir, state)
            workers.close()
            print("saved in epoch %d after %d of %d samples" % (state["epoch"], state["position"], args.samples), flush=True)
            return EXIT_SAVED
        cpu_now = time.process_time() + workers.cpu_seconds()
        used, wall, began, cpu = cpu_now - cpu, now - began, now, cpu_now
        state["seconds"] += state["epoch_seconds"]
        row = {
            "timestamp": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "epoch": state["epoch"], "total_epochs": args.epochs,
            "model_name": MODEL, "model_params": PARAMS, "model_layers": 2,
            "dataset": "generated-digits", "data_count": args.samples, "data_size_mb": round(args.samples * INPUTS / 1e6, 3),
            "batch_size": args.batch_size, "device_type": "cpu", "cpu_count": args.workers, "gpu_count": 0,
            "train_loss": round(state["loss"] / args.samples, 6), "train_accuracy": round(state["right"] / args.samples, 6),
            "test_loss": round(finished[0], 6), "test_accuracy": round(finished[1], 6),
            "epoch_time": round(state["epoch_seconds"], 6), "time_so_far": round(state["seconds"], 6),
            "throughput": round(args.samples / state["epoch_seconds"], 3),
            "memory_used_gb": memory_gb([os.getpid()] + workers.pids),
            "cpu_percent": round(100 * used / wall / args.workers, 1),
        }
        # The checkpoint holds the row, and comes first: after a crash anywhere the log and the state agree.
        state.update(epoch=state["epoch"] + 1, position=0, loss=0.0, right=0, epoch_seconds=0.0, row=row)
        save(args.checkpoint_dir, state)
        logfile.write(row)
        print("epoch %d/%d  loss %.4f  test accuracy %.4f  %.2f s" % (
            row["epoch"], args.epochs, row["train_loss"], row["test_accuracy"], row["epoch_time"]), flush=True)
    workers.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
