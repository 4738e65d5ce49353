from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import CheckpointCallback

model = PPO("MlpPolicy", "CartPole-v1", n_steps=128, device="cpu", verbose=0)
model.learn(total_timesteps=512, callback=CheckpointCallback(256, "out"))
model.save("final")
