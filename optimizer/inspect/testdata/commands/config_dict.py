import os


def training_function(config):
    # Fewer epochs for tests.
    if os.environ.get("SHORT_RUN") == "1":
        config["num_epochs"] = 2
    for epoch in range(int(config["num_epochs"])):
        print(epoch)


def main():
    config = {
        "lr": 2e-5,
        "num_epochs": 3,
    }
    training_function(config)


if __name__ == "__main__":
    main()
