package conformance

import (
	"strconv"
	"strings"
)

// training describes one training of the suite: its command, its properties and its expected counts.
type training struct {
	name      string // of the subtest
	framework string // row of the table
	command   string // space-separated; {n} is the length, {m} the steps or epochs per checkpoint interval
	prepare   string // command to run first in the same folder; empty: none
	modules   string // required Python modules, space-separated

	short, full int // lengths: for a quick check; for the suite and the benchmark (15–25 s on two quiet CPUs)
	every       int // length units between two checkpoints
	stepsPer    float64

	checkpoint string // pattern of the checkpoint files in the training's folder; empty: no checkpoints
	saves      string // pattern of files saved at the end, which may count as a checkpoint; empty: none
	resumes    bool   // the training can continue from its checkpoint
	logs       string // pattern of a log in the training's folder that may be followed; empty: none
	visible    visibility
	fixable    string // deficiency of the defaults that the optimizer may correct: threads or workers; empty: none
	quick      bool   // part of the subset that runs on every change
}

// visibility describes what can be observed of the training from outside.
type visibility struct {
	hidden    bool // no progress at all
	noSamples bool // steps or epochs only
}

// trainings lists the suite in table order.
var trainings = []training{
	{name: "pytorch-loader", framework: "PyTorch, DataLoader", command: "python conv.py --epochs {n}", modules: "torch",
		short: 2, full: 5, stepsPer: 200, quick: true},
	{name: "pytorch-steps", framework: "PyTorch, step loop (nanoGPT style)", command: "python steploop.py --max_iters={n} --eval_interval={m}", modules: "torch numpy",
		short: 120, full: 1000, every: 50, stepsPer: 1, checkpoint: "out/ckpt.pt", resumes: true, visible: visibility{noSamples: true}},
	{name: "pytorch-compile", framework: "PyTorch, torch.compile", command: "python steploop.py --compile=True --max_iters={n} --eval_interval={m}", modules: "torch numpy",
		short: 120, full: 1000, every: 50, stepsPer: 1, checkpoint: "out/ckpt.pt", resumes: true, visible: visibility{noSamples: true}},
	{name: "pytorch-transformer", framework: "PyTorch, batches by hand, --resume PATH", command: "python lm.py --epochs {n}", modules: "torch",
		short: 4, full: 24, every: 1, stepsPer: 20, checkpoint: "model.pt", resumes: true, visible: visibility{noSamples: true}},
	{name: "torchrun", framework: "torchrun, DDP on gloo, 2 ranks", command: "torchrun --standalone --nproc_per_node=2 ddp.py {n} {m}", modules: "torch",
		short: 6, full: 24, every: 2, stepsPer: 128, checkpoint: "snapshot.pt", resumes: true},
	{name: "bash-torchrun", framework: "bash → torchrun", command: "bash ddp.sh {n} {m}", modules: "torch",
		short: 6, full: 24, every: 2, stepsPer: 128, checkpoint: "snapshot.pt", resumes: true},
	{name: "hf-trainer", framework: "Hugging Face Trainer", modules: "transformers accelerate",
		command: "python hf_trainer.py --output_dir=out --max_steps={n} --save_steps={m} --logging_steps=10 --report_to=none",
		short:   60, full: 800, every: 20, stepsPer: 1, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "hf-trainer-epochs", framework: "Hugging Face Trainer, evaluation each epoch", modules: "transformers accelerate",
		command: "python hf_trainer.py --output_dir=out --num_train_epochs={n} --save_strategy=epoch --eval_strategy=epoch --logging_steps=10 --report_to=none",
		short:   3, full: 6, every: 1, stepsPer: 128, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "hf-trainer-accumulation", framework: "Hugging Face Trainer, gradient accumulation", modules: "transformers accelerate",
		command: "python hf_trainer.py --output_dir=out --num_train_epochs={n} --gradient_accumulation_steps=4 --save_steps=16 --logging_steps=10 --report_to=none",
		short:   3, full: 8, every: 1, stepsPer: 32, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "trl-sft", framework: "TRL SFTTrainer", modules: "trl transformers datasets",
		command: "python sft.py --output_dir=out --max_steps={n} --save_steps={m} --logging_steps=10 --report_to=none --use_cpu --per_device_train_batch_size=4 --max_length=64",
		short:   40, full: 500, every: 10, stepsPer: 1, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "trl-dpo", framework: "TRL DPOTrainer", modules: "trl transformers datasets",
		command: "python dpo.py --output_dir=out --max_steps={n} --save_steps={m} --logging_steps=10 --report_to=none --use_cpu --per_device_train_batch_size=4 --max_length=64",
		short:   40, full: 250, every: 10, stepsPer: 1, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "trl-grpo", framework: "TRL GRPOTrainer", modules: "trl transformers datasets",
		command: "python grpo.py --output_dir=out --max_steps={n} --save_steps={m} --logging_steps=2 --report_to=none --use_cpu --per_device_train_batch_size=8 --num_generations=4 --max_completion_length=16",
		short:   16, full: 100, every: 4, stepsPer: 1, checkpoint: "out/checkpoint-*", saves: "out/*", resumes: true, logs: "out/checkpoint-*/trainer_state.json"},
	{name: "accelerate", framework: "Accelerate", command: "python accelerate_loop.py --num_train_epochs={n}", modules: "accelerate tqdm",
		short: 4, full: 24, every: 1, stepsPer: 128, checkpoint: "accelerate_out/epoch_*", resumes: true},
	{name: "accelerate-launch", framework: "accelerate launch", modules: "accelerate tqdm",
		command: "accelerate launch --cpu --num_processes 1 accelerate_loop.py --num_train_epochs={n}",
		short:   4, full: 24, every: 1, stepsPer: 128, checkpoint: "accelerate_out/epoch_*", resumes: true},
	{name: "fabric", framework: "Lightning Fabric", command: "python fabric_loop.py --epochs {n}", modules: "lightning",
		short: 6, full: 40, every: 1, stepsPer: 128, checkpoint: "fabric.ckpt", resumes: true},
	{name: "lightning", framework: "Lightning Trainer", command: "python lightning_fit.py --max_epochs={n}", modules: "lightning",
		short: 4, full: 40, every: 1, stepsPer: 128, checkpoint: "checkpoints/*.ckpt", resumes: true, logs: "lightning_logs/version_*/metrics.csv"},
	{name: "lightning-cli", framework: "LightningCLI", command: "python lightning_cli.py fit --trainer.max_epochs={n}", modules: "lightning jsonargparse typeshed_client",
		short: 4, full: 40, every: 1, stepsPer: 128, checkpoint: "lightning_logs/version_*/checkpoints/*.ckpt", resumes: true, logs: "lightning_logs/version_*/metrics.csv"},
	{name: "keras", framework: "Keras 3 (torch backend)", command: "python keras_fit.py --epochs {n}", modules: "keras torch",
		short: 3, full: 14, every: 1, stepsPer: 100, checkpoint: "{model.keras,backup/*}", resumes: true},
	{name: "keras-silent", framework: "Keras 3, verbose=0", command: "python keras_fit.py --verbose=0 --epochs {n}", modules: "keras torch",
		short: 3, full: 14, every: 1, stepsPer: 100, checkpoint: "{model.keras,backup/*}", resumes: true},
	{name: "keras-generator", framework: "Keras 3, generator", command: "python keras_fit.py --generator --epochs {n}", modules: "keras torch",
		short: 3, full: 14, every: 1, stepsPer: 100, checkpoint: "{model.keras,backup/*}", resumes: true, visible: visibility{noSamples: true}},
	{name: "ultralytics", framework: "Ultralytics YOLO", prepare: "python yolo_data.py", modules: "ultralytics cv2",
		command: "./yolo detect train data=data.yaml model=yolov8n.yaml epochs={n} imgsz=96 batch=8 workers=0 device=cpu",
		short:   6, full: 10, every: 1, stepsPer: 6, checkpoint: "runs/detect/train*/weights/*.pt", resumes: true, logs: "runs/detect/train*/results.csv"},
	{name: "xgboost", framework: "XGBoost, verbose_eval", command: "python xgb.py --num-boost-round {n}", modules: "xgboost",
		short: 30, full: 800, stepsPer: 1, saves: "model.json", visible: visibility{noSamples: true}},
	{name: "xgboost-silent", framework: "XGBoost, silent", command: "python xgb.py --silent --num-boost-round {n}", modules: "xgboost",
		short: 30, full: 800, stepsPer: 1, saves: "model.json", visible: visibility{noSamples: true}},
	{name: "lightgbm", framework: "LightGBM, silent", command: "python lgbm.py --num_boost_round {n}", modules: "lightgbm",
		short: 200, full: 1200, stepsPer: 1, saves: "model.txt", visible: visibility{noSamples: true}},
	{name: "lightgbm-log", framework: "LightGBM, log_evaluation", command: "python lgbm.py --log_evaluation=10 --num_boost_round {n}", modules: "lightgbm",
		short: 200, full: 1200, stepsPer: 1, saves: "model.txt", visible: visibility{noSamples: true}},
	{name: "xgboost-sklearn", framework: "XGBoost, XGBClassifier", command: "python boosting_sklearn.py xgboost --n_estimators {n}", modules: "xgboost sklearn",
		short: 60, full: 800, stepsPer: 1, visible: visibility{noSamples: true}},
	{name: "lightgbm-sklearn", framework: "LightGBM, LGBMClassifier", command: "python boosting_sklearn.py lightgbm --n_estimators {n}", modules: "lightgbm sklearn",
		short: 200, full: 1200, stepsPer: 1, visible: visibility{noSamples: true}},
	{name: "stable-baselines3", framework: "Stable-Baselines3 PPO", command: "python ppo.py --total-timesteps {n}", modules: "stable_baselines3 gymnasium",
		short: 8192, full: 30720, stepsPer: 1, checkpoint: "checkpoints/*.zip", saves: "ppo_cartpole.zip"},
	{name: "scikit-learn", framework: "scikit-learn partial_fit", command: "python sgd.py --n-epochs {n}", modules: "sklearn numpy",
		short: 4, full: 100, stepsPer: 120, quick: true},
	{name: "scikit-learn-silent", framework: "scikit-learn partial_fit, silent", command: "python sgd.py --verbose=0 --n-epochs {n}", modules: "sklearn numpy",
		short: 4, full: 100, stepsPer: 120, quick: true},
	{name: "scikit-learn-boosting", framework: "scikit-learn HistGradientBoosting, one fit", command: "python one_fit.py boosting --max_iter {n}", modules: "sklearn numpy",
		short: 100, full: 800, visible: visibility{hidden: true}},
	{name: "scikit-learn-mlp", framework: "scikit-learn MLPClassifier, one fit", command: "python one_fit.py mlp --max_iter {n}", modules: "sklearn numpy",
		short: 20, full: 100, quick: true, visible: visibility{hidden: true}},
	{name: "pool", framework: "multiprocessing Pool", command: "python pool.py --generations {n}",
		short: 8, full: 80, stepsPer: 1, visible: visibility{noSamples: true}},
	{name: "plain", framework: "Python, prints Epoch i/n", command: "python plain.py --epochs {n}",
		short: 80, full: 300, stepsPer: 1, quick: true, visible: visibility{noSamples: true}},
	{name: "plain-silent", framework: "Python, prints nothing", command: "python plain.py --report=none --epochs {n}",
		short: 40, full: 300, stepsPer: 1, quick: true, visible: visibility{hidden: true}},
	{name: "plain-csv", framework: "Python, own CSV", command: "python plain.py --report=csv --epochs {n}",
		short: 120, full: 300, stepsPer: 1, quick: true, logs: "metrics.csv"},
	{name: "plain-slow-start", framework: "Python, slow first epochs", command: "python plain.py --slow-epochs=4 --epochs {n}",
		short: 80, full: 280, stepsPer: 1, quick: true, visible: visibility{noSamples: true}},
	{name: "threads", framework: "PyTorch, model too small for its threads", command: "python tiny.py --steps {n}", modules: "torch",
		short: 1500, full: 8000, stepsPer: 1, quick: true, visible: visibility{noSamples: true}, fixable: "threads"},
	{name: "input-bound", framework: "PyTorch, slow transform, no workers", command: "python input_bound.py --epochs {n}", modules: "torch numpy",
		short: 1, full: 4, stepsPer: 32, quick: true, fixable: "workers"},
}

// argv returns the command for a length.
func (t training) argv(length int) []string {
	r := strings.NewReplacer("{n}", strconv.Itoa(length), "{m}", strconv.Itoa(t.every))
	return strings.Fields(r.Replace(t.command))
}

// expected returns the counts of a complete training of the given length. Epochs are not set; they are taken from the
// training's records.
func (t training) expected(length int) mark {
	return mark{steps: t.stepsPer * float64(length)}
}
