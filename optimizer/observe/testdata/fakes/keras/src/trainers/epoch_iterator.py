class Adapter:
    def __init__(self, batch_size, has_partial_batch, partial_batch_size):
        self.batch_size, self.has_partial_batch, self.partial_batch_size = batch_size, has_partial_batch, partial_batch_size


class EpochIterator:
    def __init__(self, rows, batch_size):
        rest = rows % batch_size
        self.num_batches = -(-rows // batch_size)
        self.data_adapter = Adapter(batch_size, rest > 0, rest)
