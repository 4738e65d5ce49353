class SGDClassifier:
    def partial_fit(self, X, y=None):
        """Fit some samples."""
        return self

    def predict(self, X):
        return X
