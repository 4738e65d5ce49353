import fire


def train(data="x", n_epochs=11, lr=0.1):
    for epoch in range(n_epochs):
        pass


fire.Fire(train)
