import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=100)
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--num_workers", type=int, default=4)


def other_options():
    other = argparse.ArgumentParser()
    other.add_argument("--max_steps", type=int, default=50)


def main():
    other = argparse.ArgumentParser()
    other.add_argument("--max_iters", type=int, default=60)


if __name__ == "__main__":
    parser.add_argument("--total_steps", type=int, default=70)
