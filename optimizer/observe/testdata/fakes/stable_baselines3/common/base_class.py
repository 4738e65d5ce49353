from stable_baselines3.common.callbacks import BaseCallback, CallbackList, ConvertCallback


class BaseAlgorithm:
    n_envs = 4

    def _init_callback(self, callback, progress_bar=False):
        if isinstance(callback, list):
            callback = CallbackList(callback)
        if not isinstance(callback, BaseCallback):
            callback = ConvertCallback(callback)
        callback.init_callback(self)
        return callback

    num_timesteps = 0

    def learn(self, total_timesteps, callback=None, reset_num_timesteps=True, pause=0):
        import time

        if reset_num_timesteps:
            self.num_timesteps = 0
        self._total_timesteps = self.num_timesteps + total_timesteps
        callback = self._init_callback(callback)
        callback.on_training_start(locals())
        while self.num_timesteps < self._total_timesteps:
            time.sleep(pause)
            self.num_timesteps += self.n_envs
            if not callback.on_step():
                break
        callback.on_training_end()

    def save(self, path):
        with open(path if path.endswith(".zip") else path + ".zip", "w") as f:
            f.write("model")
