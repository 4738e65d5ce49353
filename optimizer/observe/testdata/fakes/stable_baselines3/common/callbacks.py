class BaseCallback:
    def __init__(self):
        self.n_calls = 0

    def init_callback(self, model):
        self.model = model

    def on_training_start(self, locals_):
        self.locals = locals_
        self._on_training_start()

    def on_step(self):
        self.n_calls += 1
        return self._on_step()

    def on_training_end(self):
        self._on_training_end()

    def _on_training_start(self):
        pass

    def _on_training_end(self):
        pass


class ConvertCallback(BaseCallback):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def _on_step(self):
        return self.function is None or self.function(locals(), globals())


class CallbackList(BaseCallback):
    def __init__(self, callbacks):
        super().__init__()
        self.callbacks = callbacks

    def init_callback(self, model):
        for c in self.callbacks:
            c.init_callback(model)

    def _on_training_start(self):
        for c in self.callbacks:
            c.on_training_start(self.locals)

    def _on_step(self):
        return all([c.on_step() for c in self.callbacks])

    def _on_training_end(self):
        for c in self.callbacks:
            c.on_training_end()
