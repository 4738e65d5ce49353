import gymnasium as gym

max_train_steps = 60000
step = 0
while step < max_train_steps:
    for _ in range(5):
        step += 1
    optimizer.step()
