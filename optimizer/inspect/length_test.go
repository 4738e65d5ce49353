package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const commandsDir = "testdata/commands"

// TestLengths checks the length found for each spelling, most certain source first.
func TestLengths(t *testing.T) {
	for command, want := range map[string]string{
		// Spellings on the command line.
		"python argparse_train.py --epochs 4":                                     "4 epoch stated",
		"python argparse_train.py --epochs=4":                                     "4 epoch stated",
		"coverage run --branch argparse_train.py":                                 "12 epoch declared",
		"python argparse_train.py -e 4":                                           "4 epoch stated",
		"python argparse_train.py -e4":                                            "4 epoch stated",
		"python argparse_train.py --epo 4":                                        "4 epoch stated", // argparse accepts an unambiguous prefix
		"python argparse_train.py --amp --epochs 4 --epochs 5":                    "5 epoch stated",
		"python argparse_train.py --epochs 4 --max-steps 60":                      "60 step stated, 4 epoch stated",
		"python argparse_train.py --epochs 4 --max-steps -1":                      "4 epoch stated",
		"python argparse_train.py --max_steps=60":                                 "60 step stated",
		"python argparse_train.py":                                                "12 epoch declared",
		"python argparse_train.py --eval-steps 7 --warmup_steps 9":                "12 epoch declared",
		"python -u -m argparse_train --epochs 4":                                  "4 epoch stated",
		"env A=1 nice -n 5 python argparse_train.py --epochs 4":                   "4 epoch stated",
		"A=1 B=2 python argparse_train.py --epochs 4":                             "4 epoch stated",
		"python niter.py --niter 7":                                               "7 epoch stated",
		"python niter.py":                                                         "25 epoch declared",
		"python iters_per_epoch.py --epochs 2 --iters 5":                          "2 epoch stated",
		"torchrun --nproc_per_node=2 positional.py 50 10":                         "50 epoch stated",
		"python dataclass_rl.py --total-timesteps 10000":                          "10000 step stated",
		"python dataclass_rl.py":                                                  "40000 step declared",
		"python fire_train.py --n-epochs 4":                                       "4 epoch stated",
		"python fire_train.py":                                                    "11 epoch declared",
		"python click_train.py -n 3":                                              "3 epoch stated",
		"python click_train.py":                                                   "8 epoch declared",
		"python typer_train.py":                                                   "6 epoch declared",
		"python absl_train.py":                                                    "4000 step declared",
		"mace_run_train --max_num_epochs=6":                                       "6 epoch stated",
		"python unknown.py --num_training_epochs 6":                               "6 epoch stated",
		"python unknown.py --max-train-epochs 6":                                  "6 epoch stated",
		"python unknown.py --max_nepochs 6":                                       "6 epoch stated",
		"python unknown.py --epoch_num 6":                                         "6 epoch stated",
		"python unknown.py --epoch 6 --warmup_epochs 2 --n_epochs_decay 3":        "",
		"python unknown.py --n_iters 9":                                           "9 step stated",
		"python constants.py --max_iters=300":                                     "300 step stated",
		"python constants.py constants_small.py":                                  "250 step stated",
		"python constants.py constants_small.py --max_iters=30":                   "30 step stated",
		"python constants.py":                                                     "2000 step declared",
		"python hf_run.py --num_train_epochs 4":                                   "4 epoch stated",
		"python hf_run.py --num_train_epochs 4 --max_steps 9":                     "9 step stated, 4 epoch stated",
		"python hf_run.py --max_steps 9 --num_train_epochs 4":                     "9 step stated, 4 epoch stated",
		"python hf_run.py --num_train_epochs 4.5":                                 "4.5 epoch stated",
		"python hf_run.py":                                                        "3 epoch assumed",
		"python hf_fixed.py":                                                      "120 step inferred, 5 epoch inferred",
		"python lightning_cli.py fit --trainer.max_epochs=4":                      "4 epoch stated",
		"python lightning_cli.py fit --trainer.max_steps 40":                      "40 step stated",
		"python lightning_cli.py fit --config trainer.json":                       "21 epoch stated",
		"python lightning_cli.py fit -c trainer.json --trainer.max_epochs 2":      "2 epoch stated",
		"python ignite_run.py":                                                    "6 epoch inferred",
		"python skorch_net.py":                                                    "12 epoch inferred",
		"python lightning_trainer.py":                                             "7 epoch inferred",
		"python hydra_train.py":                                                   "3 epoch stated",
		"python hydra_train.py trainer=long":                                      "30 epoch stated",
		"python hydra_train.py trainer.max_epochs=5":                              "5 epoch stated",
		"python hydra_train.py ++trainer.max_epochs=5":                            "5 epoch stated",
		"python keras_fit.py":                                                     "6 epoch inferred",
		"python loop.py":                                                          "20 epoch inferred",
		"python sb3.py":                                                           "25000 step inferred",
		"python steps_of_epoch.py":                                                "50 epoch declared",
		"python steps_of_epoch.py --steps 1000 --epochs 20":                       "20 epoch stated",
		"python boost.py":                                                         "10 step assumed",
		"python boost_sklearn.py":                                                 "150 step inferred",
		"python config_dict.py":                                                   "3 epoch inferred",
		"python pretrained_if_there.py":                                           "9 epoch inferred",
		"yolo detect train data=coco8.yaml epochs=4":                              "4 epoch stated",
		"/opt/venv/bin/yolo detect train data=coco8.yaml":                         "100 epoch assumed",
		"trl sft --num_train_epochs 1":                                            "1 epoch stated",
		"trl sft --config trl.yaml":                                               "2 epoch stated",
		"trl sft --config trl.yaml --max_steps 5":                                 "5 step stated, 2 epoch stated",
		"accelerate launch --config_file accelerate.yaml hf_run.py --max_steps=5": "5 step stated",
		"lightgbm config=lightgbm.conf":                                           "70 step stated",
		"lightgbm config=lightgbm.conf num_iterations=5":                          "5 step stated",
		"xgboost train.conf num_round=5":                                          "5 step stated",
		"spacy train spacy.cfg --output out":                                      "900 step stated",
		"python -m spacy train spacy.cfg --training.max_steps 400":                "400 step stated",
		"bash launch.sh":                                                          "15 epoch stated",
		"./launch.sh":                                                             "15 epoch stated",
		"python yaml_default.py":                                                  "11 epoch stated",
		"python yaml_default.py --config conf/trainer/long.yaml":                  "30 epoch stated",
		"python yaml_open.py":                                                     "11 epoch stated",
		"bash arguments.sh 0.1 6":                                                 "6 epoch stated",
		"./arguments.sh 0.1 6 --max-steps 40":                                     "40 step stated, 6 epoch stated",
		"bash all_arguments.sh --batch-size 8 --epochs 6":                         "6 epoch stated",
		"bash all_arguments.sh":                                                   "12 epoch declared",
		"mpirun -n 4 python argparse_train.py --epochs 4":                         "4 epoch stated",
		"deepspeed --num_gpus 2 argparse_train.py --epochs 4":                     "4 epoch stated",
		// Settings of a configuration.
		"python yacs.py --config-file yacs.yaml":                                            "90000 step stated",
		"python yacs.py --config-file yacs.yaml SOLVER.MAX_ITER 300":                        "300 step stated",
		"python yacs.py --config-file yacs.yaml TEST.MAX_ITER 7 SOLVER.MAX_ITER 300":        "300 step stated",
		"python yacs.py SOLVER.MAX_ITER 200 SOLVER.MAX_ITER 300":                            "300 step stated",
		"python yacs.py -f exp.py max_epoch 100":                                            "100 epoch stated",
		"python yacs.py NAME max_epoch 100 200":                                             "100 epoch stated",
		"python unknown.py --opts TRAIN.BASE_LR 1e-3 TRAIN.EPOCHS 100":                      "100 epoch stated",
		"python unknown.py --cfg yacs.yaml --set solver.max_iter 300 --tag SOLVER.MAX_ITER": "300 step stated",
		"python unknown.py --cfg-options train_cfg.max_epochs=24 a=b":                       "24 epoch stated",
		"python unknown.py --cfg-options a=b train_cfg.max_epochs=24":                       "24 epoch stated",
		"python unknown.py --name epochs=5 epochs 5":                                        "",
		// Of agents.
		"mlagents-learn agents.yaml --run-id a":         "",
		"mlagents-learn --run-id a agents.yaml --force": "",
		"mlagents-learn agents_default.yaml":            "",
		"python unknown.py agents.yaml --max-steps 90":  "90 step stated",
		// Not of an evaluation.
		"python argparse_train.py --mode eval":                       "",
		"python argparse_train.py --exec_mode=predict":               "",
		"python argparse_train.py --mode eval --epochs 3":            "3 epoch stated",
		"python argparse_train.py --mode train_and_evaluate --amp 1": "12 epoch declared",
		"python argparse_train.py --mode trainval":                   "12 epoch declared",
		"python argparse_train.py --pad_mode valid":                  "12 epoch declared",
		// By a parser in a module.
		"python module_train.py":               "100 epoch declared",
		"python module_train.py --epo 7":       "7 epoch stated",
		"python module_loop.py":                "90 epoch declared",
		"python module_loop.py --epochs 10":    "9 epoch stated",
		"python module_defaults.py":            "",
		"python module_defaults.py --epochs 8": "8 epoch stated",
		"python module_of_another.py":          "12 epoch declared",
		"python module_of_another.py --epo 7":  "7 epoch stated",
		// Of another unit.
		"python iter_unit.py": "1 epoch declared",
		"python iter_unit.py --iter_unit=epoch --num_iter=90": "90 epoch stated",
		"python iter_unit.py --iter_unit=batch --num_iter=90": "90 step stated",
		"python unknown.py --num_iter 90 --iter_unit epoch":   "90 epoch stated",
		"python unknown.py --max_steps 90 --iter_unit epoch":  "90 step stated",
		"python episode.py": "",
		// From 1 to the option.
		"python from_one.py":             "200 epoch declared",
		"python from_one.py --epochs 51": "50 epoch stated",
		"python from_one.py --epochs 0":  "",
		// Sums.
		"python sum.py": "200 epoch declared",
		"python sum.py --n_epochs 3 --n_epochs_decay 3":  "6 epoch stated",
		"python sum.py --n_epochs_decay=0 --n_epochs=3":  "3 epoch stated",
		"python sum.py --n_epochs_decay 50":              "150 epoch declared",
		"python sum.py --n_epochs 3 --n_epochs_decay 2x": "",
		// By position and by the environment.
		"python arguments.py 1 20":            "20 epoch inferred",
		"python -u arguments.py --fast 20":    "20 epoch inferred",
		"python arguments_default.py 20":      "20 epoch inferred",
		"python arguments_default.py":         "5 epoch inferred",
		"env LR=1 EPOCHS=3 python environ.py": "3 epoch inferred",
		"EPOCHS=3 python environ.py":          "3 epoch inferred",
		"EPOCHS= python environ.py":           "",
		"python environ.py":                   "10 epoch inferred",
		// No limit, or unknown.
		"python argparse_train.py --epochs 0":    "",
		"python argparse_train.py --epochs None": "",
		"python arguments.py":                    "",
		"python arguments.py 1 2:3":              "",
		"python arguments_sum.py 1 2":            "3 epoch inferred",
		"./train --fast":                         "",
		"python missing.py":                      "",
		"bash option_loop.sh --lr 0.1":           "",
		"bash function.sh 7":                     "",
		"bash sweep.sh":                          "",
		"bash stages.sh":                         "",
		"python branches.py":                     "", // only branches name a number
		"":                                       "",
	} {
		t.Run(command, func(t *testing.T) {
			var got []string
			for _, l := range ReadCommand(strings.Fields(command), commandsDir).Lengths() {
				got = append(got, fmt.Sprintf("%g %s %s", l.Units, l.Unit, l.Confidence))
				if l.Source == "" {
					t.Errorf("no source for %+v", l)
				}
			}
			if have := strings.Join(got, ", "); have != want {
				t.Errorf("have %q, want %q", have, want)
			}
		})
	}
}

// TestLengthOfShellCommands: the arguments that a shell collects in variables and arrays are those of the training. Arguments
// that it does not show may set another length than the default.
func TestLengthOfShellCommands(t *testing.T) {
	const train = "python argparse_train.py"
	for _, test := range []struct{ text, want string }{
		{"EPOCHS=440\nARGS=\"--epochs $EPOCHS\"\n" + train + " $ARGS", "440 epoch stated"},
		{"OPTS=\"--lr 0.1\"\nOPTS=\"$OPTS --epochs 5\"\n" + train + " ${OPTS}", "5 epoch stated"},
		{"ARGS=\"\n  --lr 0.1 \\\n  --max-steps 500000\n\"\ntorchrun argparse_train.py \\\n $ARGS --save x", "500000 step stated"},
		{": ${EPOCHS:=440}\nARGS=\"--seed 1\"\nARGS+=\" --epochs=$EPOCHS\"\n" + train + " $ARGS", "440 epoch stated"},
		{": ${D:=${1:-\"/data\"}}\n: ${N:=7}\n" + train + " --epochs $N", "7 epoch stated"},
		{"E=5\nargs=(\n --epochs $E # few\n --lr 0.1\n)\n" + train + " \"${args[@]}\"", "5 epoch stated"},
		{"args=(--lr 0.1)\nargs+=(--epochs 5)\n" + train + " \"${args[@]}\"", "5 epoch stated"},
		{"args=(\"--name=a b\" --epochs 5)\n" + train + " \"${args[@]}\" ${none[@]} \"${none[@]}\"", "5 epoch stated"},
		{"declare -a CMD\nCMD=( 'python' '-u' )\n\"${CMD[@]}\" argparse_train.py \"$@\"", "12 epoch declared"},
		{"CMD=\"" + train + "\"\nCMD+=\" --epochs=44\"\ntime $CMD |& tee log", "44 epoch stated"},
		{"e=44\nrun_cmd=\"A=1 " + train + " --epochs $e &> log\"\necho ${run_cmd}\neval ${run_cmd}", "44 epoch stated"},
		{"PY=\"python -u\"\n$PY argparse_train.py ${UNSET_ARGS} --epochs 6", "6 epoch stated"},
		{"$(which python) argparse_train.py", "12 epoch declared"},
		{"python $(flags) argparse_train.py", "12 epoch declared"},
		{"EPOCHS=9 python environ.py", "9 epoch inferred"},
		{"export LR=1 EPOCHS=9\nnice python environ.py", "9 epoch inferred"},
		{"EPOCHS=9\npython environ.py", "10 epoch inferred"},
		{"N=6\npython arguments.py 1 $N", "6 epoch inferred"},
		{train + " ${UNSET_ARGS}", "12 epoch declared"},
		{train + " --name $(date)", "12 epoch declared"},
		{train + " --name \"$(date) $ARGS\"", "12 epoch declared"},
		// Unknown arguments.
		{train + " $(arguments)", ""},
		{train + " $(arguments) --epochs 3", "3 epoch stated"},
		{"ARGS=$(arguments)\n" + train + " --lr 1 $ARGS", ""},
		{"ARGS=\"--epochs $(number)\"\n" + train + " $ARGS", ""},
		{"source config.sh\n" + train + " $ARGS", ""},
		{"for ARGS in \"--epochs 3\"; do true; done\n" + train + " $ARGS", ""},
		{"run() {\n" + train + " \"$@\"\n}\nrun --epochs 3", ""},
		{train + " --epochs $UNSET_EPOCHS --lr 0.1", ""},
		{train + " --lr 0.1 $SLURM_UNSET_ARGS", ""},
		{"[ -n \"$SLURM_UNSET_ID\" ] && A=\"--epochs 4\"\n" + train + " $A", ""},
		{"N=$((3*4))\n" + train + " --epochs $N", ""},
		// Branches.
		{"log() {\n echo \"$1\"\n}\n" + train + " \"$@\"", "12 epoch declared"},
		{"ARGS=\n[ -n \"$UNSET_EPOCHS\" ] && ARGS+=\" --epochs=$UNSET_EPOCHS\"\n[ 1 -gt 0 ] && ARGS+=\" --amp\"\n" + train + " $ARGS", "12 epoch declared"},
		{"if [ \"$1\" == train ]; then\n" + train + " --epochs 3\nelse\n" + train + " --epochs 4\nfi", ""}, // which is meant?
		{"set -e\nM=eval\nif [ $M == train ]; then\n" + train + " --epochs 3\nelse\n" + train + " --epochs 4\nfi", "4 epoch stated"},
		{"[ -n \"$1\" ] && N=$1\n[ -z \"$1\" ] && N=6 && N=7\n" + train + " --epochs $N", "7 epoch stated"},
		{"P=tf32\nif [ $P = fp16 ]; then A=\"--epochs 3\"\nelif [ $P = tf32 ]; then A=\"--epochs 5\"\nelse A=\"--epochs 6\"\nfi\n" + train + " $A", "5 epoch stated"},
		{"if [ -f x ]; then\n" + train + " --epochs 3\nelse\n" + train + " --epochs 4\nfi", ""},
		{"A=\nif [ -f x ]; then A=\"--resume x\"; fi\n" + train + " $A", "12 epoch declared"},
		{"if [ -f x ]; then A=\"--epochs 3\"; else A=\"--epochs 4\"; fi\n" + train + " $A", ""},
		{"A=(--lr 1)\n[ -f x ] && A+=(--epochs 3)\n" + train + " \"${A[@]}\"", ""},
		{"if [ -f x ]; then E=3; else E=4; fi\n" + train + " --epochs $E", ""},
		{"E=4\nif [ -f x ]; then E=3; fi\n" + train + " --epochs $E", ""},
		{"E=4\nif [ -f x ]; then E=4; fi\n" + train + " --epochs $E", "4 epoch stated"},
		{"case $MODEL in\n a) E=3 ;;\n b) E=4 ;;\nesac\n" + train + " --epochs $E", ""},
		{"if [ -f x ]; then E=3; fi\n" + train + " --epochs $E", "3 epoch stated"},
		{"N=7\nwhile [ $# -gt 0 ]; do\n case $1 in\n --epochs) N=$2; shift ;;\n esac\n shift\ndone\n" + train + " --epochs $N", "7 epoch stated"},
		{"set -- --epochs 7\n" + train + " \"$@\"", "7 epoch stated"},
		{"if [ -f x ]; then set -- --epochs 7; fi\n" + train + " \"$@\"", ""},
		{"while true; do\n" + train + " --epochs 3\ndone", ""},
	} {
		var got []string
		for _, l := range ReadCommand([]string{"bash", "-c", test.text}, commandsDir).Lengths() {
			got = append(got, fmt.Sprintf("%g %s %s", l.Units, l.Unit, l.Confidence))
		}
		if have := strings.Join(got, ", "); have != test.want {
			t.Errorf("%s\nhave %q, want %q", test.text, have, test.want)
		}
	}
}

// TestLengthOfLoopOverOption: a loop over an option whose name is not that of a length has the length that the command states.
func TestLengthOfLoopOverOption(t *testing.T) {
	dir := t.TempDir()
	const text = `import argparse
p = argparse.ArgumentParser()
p.add_argument("--epoch", default=200, type=int)
p.add_argument("--width", default=3, type=int)
args = p.parse_args()
for epoch in range(0, args.epoch):
    pass
`
	if err := os.WriteFile(filepath.Join(dir, "t.py"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]string{"python t.py": "200 epoch inferred", "python t.py --epoch 16 --width 8": "16 epoch stated", "python t.py --epoch=16": "16 epoch stated"} {
		var got []string
		for _, l := range ReadCommand(fields(command), dir).Lengths() {
			got = append(got, fmt.Sprintf("%g %s %s", l.Units, l.Unit, l.Confidence))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// TestLengthInSamples: a number of steps that a loop compares with a product counts samples.
func TestLengthInSamples(t *testing.T) {
	for src, want := range map[string]int{
		"training_iters = 200\nwhile step < training_iters: pass":                                        1,
		"training_iters = 200\nwhile step * batch_size < training_iters: pass":                           0,
		"training_iters = 200\nwhile training_iters >= step * 8 + 1: pass":                               0,
		"p.add_argument('--max_steps', default=9)\nwhile n * args.batch < args.max_steps:\n    train()":  0,
		"p.add_argument('--max_steps', default=9, help='steps per episode')\nmax_steps = args.max_steps": 0,
		"max_steps = 200\nwhile step < 2 * max_steps: pass":                                              1,
	} {
		if l := ReadCommand([]string{"python3", "-c", src}, "").Lengths(); len(l) != want {
			t.Errorf("%q: %+v", src, l)
		}
	}
}

// TestLengthOfEnvironment checks which lengths count steps of an environment rather than of the optimizer.
func TestLengthOfEnvironment(t *testing.T) {
	for command, want := range map[string]bool{
		"python dataclass_rl.py --total-timesteps 4096": true,
		"python environment.py":                         true,
		"python sb3.py":                                 false, // its observer and its tables count timesteps
		"python constants.py --max_iters=300":           false,
	} {
		c := ReadCommand(strings.Fields(command), commandsDir)
		if l := c.Lengths(); len(l) == 0 || c.OfEnvironment(l[0]) != want {
			t.Errorf("%s: %+v is of the environment: want %v", command, l, want)
		}
	}
}

// TestLengthOfScripts checks the number of epochs found in the corpus and in single constructs.
func TestLengthOfScripts(t *testing.T) {
	for file, want := range map[string]string{
		"bert_says_resnet.py": "3 line 13",
		"imagenet_ddp.py":     "90 line 12",
		"keras_mnist.py":      "7 line 9",
		"lightning_vit.py":    "20 line 25",
		"hf_trainer.py":       "2 line 5",
		"sklearn_iris.py":     "",
		"jax_gpt.py":          "4 line 16",
		"cpu_lstm.py":         "5 line 6",
		"resnet_cifar.py":     "12 line 4",
		"crlf_tabs.py":        "6 line 3",
		"run.sh":              "14",
	} {
		program := "python3"
		if strings.HasSuffix(file, ".sh") {
			program = "bash"
		}
		got := ""
		for _, l := range ReadCommand([]string{program, filepath.Join("testdata", file)}, "").Lengths() {
			if l.Unit == unitEpoch {
				got = fmt.Sprint(l.Units)
				if _, line, ok := strings.Cut(l.Source, " in line "); ok {
					got += " line " + line
				}
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", file, got, want)
		}
	}
	for src, want := range map[string]float64{
		"for epoch in range(1, 31):\n  pass":                                                                                      30,
		"for ep in tqdm(range(15)):\n  pass":                                                                                      15,
		"flags.DEFINE_integer('epochs', 33, 'how many')":                                                                          33,
		"flags.DEFINE_integer('epochs', default=33, help='how many')":                                                             33,
		"flags.DEFINE_integer(name='epochs', default=33)":                                                                         33,
		"flags.DEFINE_integer('epochs', None, 'how many')":                                                                        0,
		"YOLO('yolov8n.pt').train(data='coco128.yaml', epochs=100)":                                                               100,
		"epoch = 1\nstate = {'epoch': 1}":                                                                                         0,
		"p.add_argument('--epochs', type=int, default=30)\na = p.parse_args(['--lr', '1', '--epochs', '4'])":                      4,
		"p.add_argument('--epochs', type=int, default=30)\ndef test(): p.parse_args(['--epochs', '1'])\na = p.parse_args()":       30,
		"def train(m, num_epochs=25):\n  for epoch in range(num_epochs): pass\ntrain(m, num_epochs=5)":                            5,
		"def train(m, num_epochs=25):\n  for epoch in range(num_epochs): pass\ntrain(m, 6)":                                       6,
		"def train(m, epochs):\n  for epoch in range(epochs): pass\nn = 7\ntrain(m, n)":                                           7,
		"def train(epochs=25):\n  for epoch in range(epochs): pass\ntrain(epochs=cfg.n)":                                          0,
		"def train(epochs=25):\n  for epoch in range(epochs): pass\ndef main(epochs=8): train(epochs)\nmain()":                    8,
		"def train(epochs=25):\n  for epoch in range(epochs): pass\ndef main(epochs=8): train(epochs)\nmain(9)":                   9,
		"def train(epochs=25):\n  for epoch in range(epochs): pass\nif a:\n  train(3)\nelse:\n  train(4)":                         0,
		"def train(epochs=25):\n  for epoch in range(epochs): pass\ntrain()":                                                      25,
		"p.add_argument('--epochs', default=30)\nfor epoch in range(args.more_epochs + args.epochs): pass":                        0,
		"p.add_argument('--epochs', default=30)\nmore = 5\nn = args.epochs + more + 1\nfor epoch in range(1, n): pass":            35,
		"p.add_argument('--epochs', default=30)\nmore = 5\nif n is None:\n  n = args.epochs + more\nfor epoch in range(n): pass":  0,
		"p.add_argument('--epochs', default=30)\nfor epoch in range(start, start + args.epochs): pass":                            30,
		"p.add_argument('--epoch', default=30)\nfor epoch in range(args.start, args.start + args.epoch): pass":                    30,
		"p.add_argument('--epochs', default=30)\nfor epoch in range(args.epochs - start): pass":                                   30,
		"p.add_argument('--epochs', default=201)\nfor epoch in range(1, args.epochs): pass":                                       200,
		"p.add_argument('--epochs', default=201)\nfor epoch in range(1, args.epochs + 1): pass":                                   201,
		"p.add_argument('--epochs', default=201)\nfor epoch in range(start, args.epochs + 1): pass":                               201,
		"p.add_argument('--epochs', default=201)\nstart = 0\nfor epoch in range(start, args.epochs): pass":                        201,
		"p.add_argument('--epochs', default=201)\nstart = 0\nstart += 1\nfor epoch in range(start, args.epochs + 1): pass":        201,
		"p.add_argument('--epochs', default=201)\nstart = 0\nfor epoch in range(start, args.epochs + 1): pass":                    202,
		"start = 0\ndef f():\n  start = 1\n  start += 1\nstart = 0\nfor epoch in range(start, 30 + 1): pass":                      31,
		"p.add_argument('--epochs', default=20)\nfor e in range(1, args.epochs): pass\nfor epoch in range(args.epochs): pass":     20,
		"p.add_argument('--epochs', default=20)\nfor epoch in range(1, args.epochs): pass\nfor epoch in range(args.epochs): pass": 20,
		"pretrain = 10\nfor epoch in range(pretrain + 2 * 10): pass":                                                              30,
		"import os\nn = int(os.environ.get('OPTIMIZER_EPOCHS', 21))":                                                              21,
		"Trainer(model=m, max_duration='12ep')":                                                                                   12, // Composer
		"Trainer(model=m, max_duration='500ba')":                                                                                  0,
		"DynamicBucketingSampler(cuts, max_duration=200)":                                                                         0, // seconds
	} {
		have := 0.0
		if l := ReadCommand([]string{"python3", "-c", src}, "").Lengths(); len(l) > 0 && l[0].Unit == unitEpoch {
			have = l[0].Units
		}
		if have != want {
			t.Errorf("%q: %g epochs, want %g", src, have, want)
		}
	}
}

// TestLengthOfNestedEpochs: neither the updates or rounds of a script nor the epochs that each of them trains for are its length in
// optimizer steps or epochs.
func TestLengthOfNestedEpochs(t *testing.T) {
	const client = "class Client:\n    def update(self):\n        for iter in range(args.local_ep):\n            loss.backward()\n"
	for src, nested := range map[string]bool{
		"for update in range(60):\n    for epoch in range(4):\n        loss.backward()":                                                                      true,
		"for update in loop(updates):\n    for _ in range(args.K_epochs):\n        loss.backward()\nupdates = 60":                                            true,
		"def train(data):\n    for epoch in range(5):\n        loss.backward()\nfor i in range(args.iterations):\n    train(play())":                         true,
		client + "for epoch in range(30):\n    for idx in users:\n        Client(idx).update()":                                                              true,
		"for epoch in range(30):\n    for fold, (a, b) in enumerate(KFold(5).split(x)):\n        for batch in data: loss.backward()":                         true,
		"for epoch in range(30):\n    for name in os.listdir(folder):\n        loss.backward()":                                                              false,
		"for epoch in range(30):\n    for phase in phases:\n        for batch in data: loss.backward()":                                                      false,
		"for epoch in range(30):\n    for name in os.listdir(folder):\n        train, val = make_loaders(name)\n        for batch in train: loss.backward()": true,
		"for epoch in range(30):\n    for batch in DataLoader(data):\n        loss.backward()\n        evaluate(DataLoader(val))":                            false,
		"for epoch in range(30):\n    train = DataLoader(data)\n    for batch in train: loss.backward()":                                                     false,
		client + "c = Client()\nfor epoch in range(30):\n    c.update()":                                                                                     true,
		client + "Client().update()\nfor epoch in range(30):\n    loss.backward()":                                                                           false,
		"for epoch in range(30):\n    for step in range(9):\n        loss.backward()":                                                                        false,
		"for epoch in range(30):\n    loss.backward()\n    for ep in range(9):\n        plot(ep)":                                                            false,
		"for epoch in range(30):\n    for _ in range(steps_per_epoch):\n        loss.backward()":                                                             false,
		"for epoch in range(30):\n    for epoch_step in range(9):\n        loss.backward()":                                                                  false,
		"num_epochs = 30\nfor i in range(num_epochs):\n    model.fit(x, epochs=1)":                                                                           false,
		"for step in range(60):\n    loss.backward()\n    if step == 59:\n        for epoch in range(3):\n            evaluate(epoch)":                       false,
	} {
		c := ReadCommand([]string{"python3", "-c", "args.iterations = 12\nargs.local_ep = 2\n" + src}, "")
		if c.Nested() != nested || (len(c.Lengths()) == 0) != nested {
			t.Errorf("%q: nested %t, want %t; lengths %+v", src, c.Nested(), nested, c.Lengths())
		}
	}
}

// TestRoundsOfBoosting: the rounds of XGBoost and LightGBM are a keyword, the third argument, or the library's default; those
// that the script sets to an unknown value are unknown.
func TestRoundsOfBoosting(t *testing.T) {
	for src, want := range map[string]float64{
		"import xgboost as xgb\nxgb.train(p, d, num_boost_round=30)":                                    30,
		"import xgboost as xgb\nxgb.train(p, d, 3, watchlist)":                                          3,
		"import xgboost as xgb\nn = 40\nxgb.train(p, d, n)":                                             40,
		"import xgboost as xgb\nxgb.train(p, d)":                                                        10,
		"import xgboost as xgb\nxgb.train(p, d, evals=e)":                                               10,
		"import xgboost as xgb\nxgb.train(p, d, args.rounds)":                                           0,
		"import xgboost as xgb\nxgb.train(p, d, num_boost_round=args.trees)":                            0,
		"import lightgbm as lgb\nlgb.train(p, d)":                                                       100,
		"import lightgbm as lgb\nlgb.train(p, d, 7)":                                                    7,
		"import lightgbm as lgb\nlgb.cv(p, d, 8)":                                                       8,
		"from transformers import TrainingArguments as A\nTrainingArguments('o')":                       3,
		"from transformers import TrainingArguments as A\nTrainingArguments('o', num_train_epochs=n())": 0,
	} {
		have := 0.0
		if l := ReadCommand([]string{"python3", "-c", src}, "").Lengths(); len(l) > 0 {
			have = l[0].Units
		}
		if have != want {
			t.Errorf("%q: %g, want %g", src, have, want)
		}
	}
}

// TestLengthSource checks the description of the source.
func TestLengthSource(t *testing.T) {
	for command, want := range map[string]string{
		"python constants.py --max_iters=300":               "--max_iters=300 on the command line",
		"python argparse_train.py -e 4":                     "-e 4 on the command line",
		"python positional.py 50 10":                        "total_epochs 50 on the command line",
		"python argparse_train.py":                          "default of --epochs in line 6",
		"python lightning_cli.py fit --config trainer.json": "trainer.max_epochs = 21 in trainer.json line 1",
		"python yacs.py x=3 SOLVER.MAX_ITER 300":            "SOLVER.MAX_ITER 300 on the command line",
		"python unknown.py --cfg-options max_epochs=24":     "--cfg-options max_epochs=24 on the command line",
		"python module_train.py":                            "default of --epochs in line 4 of module_options.py",
		"python hydra_train.py":                             "trainer.max_epochs = 3 in trainer/short.yaml line 1",
		"python hf_fixed.py":                                "TrainingArguments(max_steps=120) in line 3",
		"python loop.py":                                    "loop over 20 epochs in line 2",
		"python -c max_epochs=3":                            "max_epochs = 3 in line 1",
		"python hf_run.py --nproc 3 ":                       "default num_train_epochs = 3 of the framework",
	} {
		ls := ReadCommand(strings.Fields(command), commandsDir).Lengths()
		if len(ls) == 0 || ls[0].Source != want {
			t.Errorf("%s: have %+v, want %q", command, ls, want)
		}
	}
}

// TestConfigFilesAreBounded: special files and large files are not read.
func TestConfigFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/zero", filepath.Join(dir, "zero.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "large.yaml"), append([]byte("epochs: 3\n"), make([]byte, maxConfigBytes)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"zero.yaml", "large.yaml", "missing.yaml"} {
		if ls := ReadCommand([]string{"trl", "sft", "--config", f}, dir).Lengths(); len(ls) != 1 || ls[0].Confidence != lengthAssumed {
			t.Errorf("%s: %+v", f, ls)
		}
	}
}

// TestDistributed checks which commands may be started on several machines.
func TestDistributed(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"plain.py": "import torch\nfor epoch in range(3): pass\n", "ddp.py": "import torch\ntorch.distributed.init_process_group('nccl')\n",
		"plain.sh": "python3 plain.py\n", "launch.sh": "torchrun plain.py\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for command, want := range map[string]bool{"python3 plain.py": false, "python3 ddp.py": true, "torchrun plain.py": true, "python3 -m torch.distributed.run plain.py": true,
		"./train": true, "bash launch.sh": true, "bash plain.sh": true} {
		if got := ReadCommand(strings.Fields(command), dir).Distributed(); got != want {
			t.Errorf("%s: %v, want %v", command, got, want)
		}
	}
}

func TestLocalRanks(t *testing.T) {
	for command, want := range map[string]int{
		"python argparse_train.py":                                                 1,
		"torchrun --nproc_per_node=2 argparse_train.py":                            2,
		"torchrun --nproc-per-node 3 argparse_train.py":                            3,
		"torchrun --standalone --nproc_per_node gpu argparse_train.py":             4,
		"torchrun --nproc_per_node=cpu argparse_train.py":                          8,
		"torchrun --nproc_per_node=auto argparse_train.py":                         4,
		"torchrun argparse_train.py --nproc_per_node=9":                            1, // the script's own argument
		"python -m torch.distributed.run --nproc_per_node=2 argparse_train.py":     2,
		"python3 -m torch.distributed.launch --nproc_per_node=2 argparse_train.py": 2,
		"accelerate launch --num_processes 2 argparse_train.py":                    2,
		"accelerate launch --num_processes 8 --num_machines 2 hf_run.py":           4,
		"accelerate launch hf_run.py":                                              1,
		"accelerate launch --multi_gpu hf_run.py":                                  4,
		"accelerate launch --config_file accelerate.yaml hf_run.py":                3,
		"deepspeed --num_gpus=2 argparse_train.py":                                 2,
		"deepspeed argparse_train.py":                                              4,
		"mpirun -n 6 python argparse_train.py":                                     6,
		"mpirun --allow-run-as-root -np 6 python argparse_train.py":                6,
		"horovodrun -np 2 python argparse_train.py":                                2,
		"bash launch.sh": 2,
		"python lightning_cli.py fit --trainer.devices=2":     2,
		"nohup torchrun --nproc_per_node=2 argparse_train.py": 2,
	} {
		if got := ReadCommand(strings.Fields(command), commandsDir).LocalRanks(4, 8); got != want {
			t.Errorf("%s: %d local ranks, want %d", command, got, want)
		}
	}
	if got := localRanks(strings.Fields("torchrun --nproc_per_node=auto t.py"), 0, 8); got != 8 {
		t.Errorf("auto without a GPU: %d, want one for each CPU", got)
	}
}

// hostile are repeated parts of scripts on which a search back through the script, from each of its statements, would be
// quadratic: in its size, or in the size of its beginning.
var hostile = map[string]struct{ begin, part string }{
	"one branch":         {"if a:\n", " epochs = 1\n"},
	"many branches":      {"", "if a:\n  epochs = 3\nfit(epochs=epochs)\n"},
	"many references":    {"epochs = 3\n", "fit(epochs=epochs)\n"},
	"one line":           {"", "epochs=1;"},
	"calls on one line":  {"", "fit(epochs=1);"},
	"loops":              {"def f():\n", "  for epoch in range(3): x\n"},
	"long indentation":   {strings.Repeat(" ", 1<<17), "epochs=1;"},
	"long scopes":        {"class " + strings.Repeat("A", 1<<17) + ":\n def " + strings.Repeat("B", 1<<17) + "():\n", "  epochs = 1\n"},
	"heads without body": {"", "def f():\n"},
	"conditions":         {"p.add_argument('--x')\n", "if os.path.exists(args.x): x\n"},
	"options":            {"", "p.add_argument('--resume')\nf(args.resume)\n"},
}

// TestLongScripts checks that reading a script of a megabyte is not quadratic. It measures the processor time of its
// own thread: about a second, against minutes.
func TestLongScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("ten seconds of parsing")
	}
	for name, h := range hostile {
		t.Run(name, func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			source := h.begin + strings.Repeat(h.part, (1<<20)/len(h.part))
			from := threadTime(t)
			readSource(source)
			if took := threadTime(t) - from; took > 20*time.Second {
				t.Errorf("took %v of processor time", took)
			} else {
				t.Log(took)
			}
		})
	}
}

// readSource derives from a script all that a run does.
func readSource(source string) {
	s := parse(source)
	(&Inspection{}).find(s)
	c := &Command{source: s}
	c.Lengths()
	c.Resumption(c.Mapping(nil))
}

func threadTime(t *testing.T) time.Duration {
	var r unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_THREAD, &r); err != nil {
		t.Fatal(err)
	}
	return time.Duration(r.Utime.Nano())
}

// BenchmarkLongScripts measures the time per byte of hostile scripts of two sizes, which is the same if it is linear.
func BenchmarkLongScripts(b *testing.B) {
	for name, h := range hostile {
		for _, size := range []int{1 << 16, 1 << 20} {
			b.Run(fmt.Sprintf("%s/%d", name, size), func(b *testing.B) {
				source := h.begin + strings.Repeat(h.part, size/len(h.part))
				b.SetBytes(int64(len(source)))
				for b.Loop() {
					readSource(source)
				}
			})
		}
	}
}
