from torch.utils.data.dataloader import DataLoader, IterableDataset
