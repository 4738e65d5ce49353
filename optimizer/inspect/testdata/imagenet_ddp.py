import argparse
import torch, torch.nn as nn
import torchvision.models as models
from torch.nn.parallel import DistributedDataParallel as DDP
import torchvision.datasets as dsets
import signal, sys

parser = argparse.ArgumentParser()
parser.add_argument("data", metavar="DIR", nargs="?", default="imagenet")
parser.add_argument("-a", "--arch", default="densenet121",
                    choices=["resnet18", "vgg16", "alexnet", "densenet121"])
parser.add_argument("--epochs", default=90, type=int, metavar="N")
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--resume", default="", type=str)


def on_term(signum, frame):
    save()
    sys.exit(75)


def save():
    torch.save({"model": model.state_dict()}, "checkpoint.pth.tar")


def main_worker(gpu, args):
    global model
    model = models.__dict__[args.arch]()
    model.cuda(gpu)
    model = DDP(model, device_ids=[gpu])
    if args.resume:
        model.load_state_dict(torch.load(args.resume, map_location="cpu"))
    train_set = dsets.ImageFolder(args.data + "/train")
    val_loader = torch.utils.data.DataLoader(dsets.ImageFolder("val"), batch_size=1000)
    for epoch in range(args.epochs):
        pass


def main():
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, on_term)
    main_worker(0, args)


if __name__ == '__main__': main()
