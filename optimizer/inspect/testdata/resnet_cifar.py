import os, torch
from torchvision import datasets, transforms
from torchvision.models import resnet18, vgg16, alexnet  # resnet18 is used
epochs = int(os.environ.get("OPTIMIZER_EPOCHS", "12"))
batch_size = int(os.getenv('OPTIMIZER_BATCH_SIZE', 128))
os.environ["OMP_NUM_THREADS"] = "2"
def train_one_epoch(model): ...
def train_model():
    train = datasets.CIFAR10("./data", train=True, transform=transforms.ToTensor())
    test_loader = torch.utils.data.DataLoader(datasets.MNIST("."), batch_size=1000)
    model = resnet18(num_classes=10).cuda()
    for epoch in range(epochs):
        train_one_epoch(model)
    torch.save(model.state_dict(), "model.pt"); model.load_state_dict(torch.load("model.pt"))
def evaluate(): pass
train_model()
