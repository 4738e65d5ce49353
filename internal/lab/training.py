"""A training without a library: UNITS PACE [SPEEDS], units of PACE seconds each. It saves after each unit, and on SIGUSR1 exits with 75.

Each unit is one line "WRITER UNIT TIME" in the journal beside the script, by which a test detects two writers and lost
units. WRITER identifies the process, TIME is in seconds since 1970. With WORLD_SIZE 2, the process of RANK 1 takes part in
each unit. SPEEDS, such as n0=4,n1=2, are those of nodes; that of any other node is 1.
"""
import json
import os
import signal
import socket
import sys
import time

units, pace = int(sys.argv[1]), float(sys.argv[2])
speeds = dict(s.split("=") for s in sys.argv[3].split(",")) if len(sys.argv) > 3 else {}
pace /= float(speeds.get(os.environ.get("SLURMD_NODENAME"), 1))
home = os.path.dirname(os.path.abspath(__file__))
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
peer = None
if os.environ.get("WORLD_SIZE") == "2":
    meeting = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if os.environ["RANK"] == "0":
        with socket.create_server(("", meeting[1])) as server:
            peer = server.accept()[0]
    else:
        while peer is None:
            try:
                peer = socket.create_connection(meeting)
            except OSError:
                time.sleep(0.1)
        while peer.recv(1):
            peer.send(b"1")
        sys.exit(0)
writer = os.environ.get("SLURM_JOB_ID", "local") + ":" + str(os.getpid())
folder = os.environ.get("OPTIMIZER_CHECKPOINT_DIR", home)
os.makedirs(folder, exist_ok=True)
saved = os.path.join(folder, "checkpoint.json")
done = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(saved):
    with open(saved) as f:
        done = json.load(f)["unit"]
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    with open(log, "w") as f:
        f.write("epoch,total_epochs,epoch_time,train_loss\n")
while done < units:
    if asked:
        sys.exit(75)
    time.sleep(pace)
    if peer:
        peer.send(b"1")
        if not peer.recv(1):
            sys.exit("the other process has ended")
    done += 1
    with open(os.path.join(home, "journal"), "a") as f:
        f.write(f"{writer} {done} {time.time():.3f}\n")
    try:
        with open(saved + ".new", "w") as f:
            json.dump({"unit": done}, f)
        os.replace(saved + ".new", saved)
        with open(log, "a") as f:
            f.write(f"{done},{units},{pace},{1 / done:.6f}\n")
    except OSError:  # the disk is full
        pass
