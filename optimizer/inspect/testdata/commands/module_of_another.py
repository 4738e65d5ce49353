import argparse

import module_options


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    args = parser.parse_args()
    for epoch in range(args.epochs):
        module_options.step()


main()
