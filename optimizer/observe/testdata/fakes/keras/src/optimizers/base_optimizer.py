from types import SimpleNamespace

scope = SimpleNamespace(stateless=False, compiling=False)
backend = SimpleNamespace(backend=lambda: "torch", common=SimpleNamespace(
    stateless_scope=SimpleNamespace(in_stateless_scope=lambda: scope.stateless)))


class BaseOptimizer:
    iterations = 0

    def apply_gradients(self, grads_and_vars):
        self.apply([g for g, _ in grads_and_vars])

    def apply(self, grads, trainable_variables=None):
        self.iterations += 1
