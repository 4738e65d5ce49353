class Callback:
    def set_model(self, model):
        self.model = model

    def set_params(self, params):
        self.params = params


class CallbackList(Callback):
    def __init__(self, callbacks=None, add_history=False, add_progbar=False, model=None, **params):
        self.callbacks = list(callbacks or [])
        self.set_model(model)
        self.set_params(params)

    def event(self, name, *args):
        for c in self.callbacks:
            if hasattr(c, name):
                getattr(c, name)(*args)
