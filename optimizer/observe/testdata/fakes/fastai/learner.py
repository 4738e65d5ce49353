"""Stands in for fastai in tests: a Learner calls its events by name."""


class CancelFit(Exception):
    pass


class Loader:
    def __init__(self, n, bs):
        self.n, self.bs = n, bs

    def __len__(self):
        return -(-self.n // self.bs)


class Loaders:
    def __init__(self, n, bs):
        self.train, self.valid = Loader(n, bs), Loader(n // 2, bs)


class Recorder:
    metric_names = ["epoch", "train_loss", "valid_loss", "accuracy", "time"]


class Learner:
    def __init__(self, n, bs, stop=None):
        self.dls, self.recorder, self.stop, self.training = Loaders(n, bs), Recorder(), stop, True

    def __call__(self, event_name):
        if event_name == "after_batch" and self.training and hasattr(self, "lr_finder") and self.iter == 1:
            raise CancelFit
        if event_name == "after_epoch":
            self.recorder.log = [self.epoch, 0.5, 0.75, 0.9, "00:01"]
            if self.stop == self.epoch:
                raise CancelFit

    def fit(self, n_epoch):
        self.n_epoch = n_epoch
        try:
            self("before_fit")
            for self.epoch in range(n_epoch):
                for loader in self.dls.train, self.dls.valid:
                    self.training, self.n_iter = loader is self.dls.train, len(loader)
                    for self.iter in range(len(loader)):
                        self.loss = 0.25
                        self("after_batch")
                self("after_epoch")
        except CancelFit:
            self("after_cancel_fit")
        self("after_fit")

    def lr_find(self):
        self.lr_finder = True
        self.fit(1)
        self.save("_tmp")
        del self.lr_finder

    def save(self, file):
        open(file, "w").close()
        return file
