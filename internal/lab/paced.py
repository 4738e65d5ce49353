import os, signal, sys, time
dir = os.environ["OPTIMIZER_CHECKPOINT_DIR"]
os.makedirs(dir, exist_ok=True)
ckpt, alone = os.path.join(dir, "epoch"), os.path.join(dir, "alone")
total, pace = int(os.environ["OPTIMIZER_EPOCHS"]), float(sys.argv[1])
pace /= {"fast": 1.0, "slow": 0.5, "a100": 1.0, "v100": 0.5, "k80": 0.25}.get(os.environ["OPTIMIZER_DEVICE"], 1.0)
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
os.mkdir(alone)
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,train_loss\n")
for epoch in range(start + 1, total + 1):
    time.sleep(pace)
    with open(log, "a") as f: f.write("%d,%d,%g\n" % (epoch, total, 1 / epoch))
    with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
    os.replace(ckpt + ".tmp", ckpt)
    if leave and epoch < total:
        os.rmdir(alone)
        sys.exit(75)
os.rmdir(alone)
