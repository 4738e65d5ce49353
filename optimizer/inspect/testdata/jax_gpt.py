import jax, optax
import jax.numpy as jnp
from flax import linen as nn
from torch.utils.data import DataLoader   # only for loading

class GPT(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(8)(x)

config = dict(batch_size=12, epochs=4, dataset="openwebtext")
model = GPT()
params = model.init(jax.random.PRNGKey(0), jnp.ones((1, 8)))
tx = optax.adam(1e-3)
state = tx.init(params)
for epoch in range(4):
    pass
