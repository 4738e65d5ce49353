from types import SimpleNamespace


class EpochIterator:
    def __init__(self, rows, batch_size):
        rest = rows % batch_size
        self.num_batches = -(-rows // batch_size)
        self.data_adapter = SimpleNamespace(batch_size=batch_size, has_partial_batch=rest > 0, partial_batch_size=rest)
