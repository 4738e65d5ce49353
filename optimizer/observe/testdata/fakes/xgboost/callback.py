class TrainingCallback:
    def after_iteration(self, model, epoch, evals_log):
        return False
