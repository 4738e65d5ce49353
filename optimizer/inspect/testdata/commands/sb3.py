from stable_baselines3 import PPO

PPO("MlpPolicy", "CartPole-v1", n_steps=128).learn(total_timesteps=25_000)
