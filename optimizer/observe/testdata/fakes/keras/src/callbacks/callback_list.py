import threading


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
        self._async_train = False

    def _configure_async_dispatch(self, callbacks):
        pass

    def on_train_batch_end(self, batch, logs=None):
        if self._async_train:
            thread = threading.Thread(target=self.event, args=("on_train_batch_end", batch, logs))
            thread.start()
            thread.join()
        else:
            self.event("on_train_batch_end", batch, logs)

    def event(self, name, *args):
        for c in self.callbacks:
            if hasattr(c, name):
                getattr(c, name)(*args)
