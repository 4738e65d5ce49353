class IterableDataset:
    pass


class _BaseDataLoaderIter:
    def __init__(self, loader):
        import torch
        torch.default_generator.state += 1  # each pass draws a seed
        if loader.num_workers == 7:
            raise OSError("no more processes")
        self.loader, self.items = loader, iter(loader.dataset)

    def __iter__(self):
        return self

    def __next__(self):
        batch = []
        for item in self.items:
            batch.append(item)
            if len(batch) == self.loader.batch_size:
                return batch
        if batch:
            return batch
        raise StopIteration


class SequentialSampler:
    def __init__(self, data):
        self.data = data

    def __len__(self):
        return len(self.data)


class DataLoader:
    def __init__(self, dataset, batch_size=1, shuffle=None, sampler=None, batch_sampler=None, num_workers=0, prefetch_factor=None,
                 persistent_workers=False, pin_memory=False):
        if num_workers == 0 and prefetch_factor is not None:
            raise ValueError("prefetch_factor without workers")
        self.dataset, self.batch_size, self.num_workers = dataset, batch_size, num_workers
        self.prefetch_factor, self.persistent_workers, self.pin_memory = prefetch_factor, persistent_workers, pin_memory
        self._dataset_kind = int(isinstance(dataset, IterableDataset))
        self.sampler = None if self._dataset_kind else SequentialSampler(dataset)

    def __iter__(self):
        return _BaseDataLoaderIter(self)

    def __len__(self):
        if self._dataset_kind:
            raise AssertionError("the length of an iterable dataset was asked for")
        return -(-len(self.dataset) // self.batch_size)
