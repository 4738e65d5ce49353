import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--max_step", default=40, type=int, help="max length for episode")
parser.add_argument("--train_times", default=2000000, type=int, help="total traintimes")
args = parser.parse_args()
step = episode_steps = 0
while step <= args.train_times:
    step += 1
    episode_steps += 1
    if episode_steps >= args.max_step:
        episode_steps = 0
