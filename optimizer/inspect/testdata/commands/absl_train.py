from absl import app, flags

flags.DEFINE_integer("num_train_steps", 4000, "steps")
flags.DEFINE_integer("eval_steps", 100, "steps of an evaluation")
