def fit(args):
    for epoch in range(1, args.epochs):
        train()
