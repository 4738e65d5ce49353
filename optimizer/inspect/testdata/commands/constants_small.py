# A smaller model.
batch_size = 4
max_iters = 300
max_iters = 250
