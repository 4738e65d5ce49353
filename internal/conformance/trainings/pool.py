"""Evolution strategy whose candidates are evaluated by a multiprocessing pool."""
import argparse
import multiprocessing
import random

import truth


def fitness(weights):
    rng = random.Random(0)
    return -sum((sum(w * rng.random() for w in weights) - 1) ** 2 for _ in range(3000))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--generations", type=int, default=80)
    parser.add_argument("--population", type=int, default=64)
    args = parser.parse_args()
    rng, centre = random.Random(1), [0.0] * 12
    with multiprocessing.Pool(2) as pool:
        for generation in range(args.generations):
            candidates = [[c + rng.gauss(0, 0.1) for c in centre] for _ in range(args.population)]
            scores = pool.map(fitness, candidates)
            best = sorted(zip(scores, candidates), reverse=True)[:8]
            centre = [sum(c[i] for _, c in best) / len(best) for i in range(len(centre))]
            truth.at(generation + 1, generation + 1, (generation + 1) * args.population)
            print(f"generation {generation + 1}/{args.generations} best {best[0][0]:.5f}")


if __name__ == "__main__":
    main()
