"""Fine-tunes BERT. Much faster than our old ResNet-50 on ImageNet; VGG and GPT were worse.

>>> model = models.resnet50()
"""
# model = torchvision.models.resnet50(pretrained=True)   # old
import os
import torch
from torch.utils.data import DataLoader
from datasets import load_dataset
from transformers import AutoTokenizer, BertForQuestionAnswering, get_scheduler

BATCH_SIZE = 16  # was 64 with resnet
NUM_EPOCHS = 3


def train_one_epoch(model, loader, optimizer, device):
    for batch in loader:
        batch = {k: v.to(device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def main():
    print("not a resnet, and no vgg either")
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    tokenizer = AutoTokenizer.from_pretrained("gpt2")
    data = load_dataset("squad")
    model = BertForQuestionAnswering.from_pretrained("bert-base-uncased").to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    loader = DataLoader(data["train"], batch_size=BATCH_SIZE, shuffle=True)
    for epoch in range(NUM_EPOCHS):
        train_one_epoch(model, loader, optimizer, device)


if __name__ == "__main__":
    main()
