package inspect

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func fields(s string) []string { return strings.Fields(s) }

// TestApply: each knob replaces an existing argument in its present spelling, or is inserted at its position.
func TestApply(t *testing.T) {
	type values = map[string]string
	for name, c := range map[string]struct {
		command string
		own     map[string]string
		set     values
		want    string
	}{
		"separate":              {"python argparse_train.py --batch-size 32 data", nil, values{KnobBatchSize: "8"}, "python argparse_train.py --batch-size 8 data"},
		"joined":                {"python argparse_train.py --batch-size=32 data", nil, values{KnobBatchSize: "8"}, "python argparse_train.py --batch-size=8 data"},
		"short":                 {"python argparse_train.py -b 32 -j4 data", nil, values{KnobBatchSize: "8", KnobWorkers: "1"}, "python argparse_train.py -b 8 -j1 data"},
		"abbreviated":           {"python argparse_train.py --batch 32", nil, values{KnobBatchSize: "8"}, "python argparse_train.py --batch 8"},
		"underscores":           {"python argparse_train.py --batch_size 32", nil, values{KnobBatchSize: "8"}, "python argparse_train.py --batch_size 8"},
		"the last one counts":   {"python argparse_train.py -b 1 -b 2", nil, values{KnobBatchSize: "8"}, "python argparse_train.py -b 1 -b 8"},
		"absent":                {"python argparse_train.py data", nil, values{KnobBatchSize: "8"}, "python argparse_train.py data --batch-size=8"},
		"before a double dash":  {"python argparse_train.py --amp -- data", nil, values{KnobSeed: "5"}, "python argparse_train.py --amp --seed=5 -- data"},
		"a toggle is no value":  {"python argparse_train.py --amp data", nil, values{KnobEpochs: "2"}, "python argparse_train.py --amp data --epochs=2"},
		"a path to resume from": {"python argparse_train.py data", nil, values{KnobResume: "runs/checkpoint.pt"}, "python argparse_train.py data --resume=runs/checkpoint.pt"},
		"module":                {"python -m argparse_train -b 2", nil, values{KnobBatchSize: "8"}, "python -m argparse_train -b 8"},
		"processes":             {"torchrun --standalone --nproc_per_node=4 argparse_train.py", nil, values{knobProcesses: "2", KnobSeed: "1"}, "torchrun --standalone --nproc_per_node=2 argparse_train.py --seed=1"},
		"processes, absent":     {"torchrun argparse_train.py", nil, values{knobProcesses: "2"}, "torchrun --nproc_per_node=2 argparse_train.py"},
		"processes, by dashes":  {"torchrun --nproc-per-node 4 argparse_train.py", nil, values{knobProcesses: "2"}, "torchrun --nproc-per-node 2 argparse_train.py"},
		"processes of a module": {"python -m torch.distributed.run --nproc_per_node=4 argparse_train.py", nil, values{knobProcesses: "2"}, "python -m torch.distributed.run --nproc_per_node=2 argparse_train.py"},
		"accelerate":            {"accelerate launch hf_run.py --max_steps 5", nil, values{knobProcesses: "2", KnobSteps: "9"}, "accelerate launch --num_processes=2 hf_run.py --max_steps 9"},
		"deepspeed":             {"deepspeed --num_gpus 4 argparse_train.py", nil, values{knobProcesses: "2"}, "deepspeed --num_gpus 2 argparse_train.py"},
		"mpirun":                {"mpirun -np 4 python argparse_train.py", nil, values{knobProcesses: "2"}, "mpirun -np 2 python argparse_train.py"},
		"mpirun, absent":        {"mpirun python argparse_train.py", nil, values{knobProcesses: "2"}, "mpirun -n 2 python argparse_train.py"},
		"horovod":               {"horovodrun -np 4 python argparse_train.py", nil, values{knobProcesses: "2"}, "horovodrun -np 2 python argparse_train.py"},
		"Hugging Face":          {"python hf_run.py --output_dir o", nil, values{KnobBatchSize: "4", KnobResume: "o/checkpoint-50", KnobWorkers: "2"}, "python hf_run.py --output_dir o --per_device_train_batch_size=4 --resume_from_checkpoint=o/checkpoint-50 --dataloader_num_workers=2"},
		"TRL":                   {"trl sft --per_device_train_batch_size 8", nil, values{KnobBatchSize: "4"}, "trl sft --per_device_train_batch_size 4"},
		"Lightning":             {"python lightning_cli.py fit --data.batch_size 32", nil, values{KnobBatchSize: "4", KnobWorkers: "3", KnobResume: "a=b.ckpt", knobProcesses: "2"}, "python lightning_cli.py fit --data.batch_size 4 --trainer.devices=2 --ckpt_path=a=b.ckpt --data.num_workers=3"},
		"Ultralytics":           {"yolo detect train model=yolo11n.yaml batch=16", nil, values{KnobBatchSize: "4", KnobResume: "runs/last.pt"}, "yolo detect train model=runs/last.pt batch=4 resume=True"},
		"constants":             {"python constants.py --batch_size=8", nil, values{KnobBatchSize: "4", KnobResume: "x", KnobSteps: "30"}, "python constants.py --batch_size=4 --init_from=resume --max_iters=30"},
		"options of a module":   {"python module_train.py --epochs 4", nil, values{KnobBatchSize: "4", KnobWorkers: "2", KnobEpochs: "5"}, "python module_train.py --epochs 5 --batch_size=4 --num_workers=2"},
		"hydra":                 {"python hydra_train.py trainer=long", nil, values{KnobBatchSize: "4", KnobEpochs: "2"}, "python hydra_train.py trainer=long batch_size=4 trainer.max_epochs=2"},
		"lightgbm":              {"lightgbm config=lightgbm.conf num_iterations=9", nil, values{KnobSteps: "3"}, "lightgbm config=lightgbm.conf num_iterations=3"},
		"xgboost":               {"xgboost a.conf", nil, values{KnobSteps: "3"}, "xgboost a.conf num_round=3"},
		"own, with a value":     {"python unknown.py --bs 9", map[string]string{KnobBatchSize: "--bs={}"}, values{KnobBatchSize: "4"}, "python unknown.py --bs 4"},
		"own, short":            {"python unknown.py", map[string]string{KnobBatchSize: "-B {}"}, values{KnobBatchSize: "4"}, "python unknown.py -B 4"},
		"own before a preset":   {"trl sft", map[string]string{KnobBatchSize: "--bs={}"}, values{KnobBatchSize: "4"}, "trl sft --bs=4"},
		"own, {latest}":         {"python unknown.py", map[string]string{KnobResume: "--resume_from_checkpoint {latest}"}, values{KnobResume: "c-5"}, "python unknown.py --resume_from_checkpoint c-5"},
		"own, without a value":  {"python unknown.py --init_from=scratch", map[string]string{KnobResume: "--init_from=resume"}, values{KnobResume: "c-5"}, "python unknown.py --init_from=resume"},
		"own, of the launcher":  {"torchrun --nproc_per_node 4 unknown.py", map[string]string{knobProcesses: "--nproc_per_node={}"}, values{knobProcesses: "2"}, "torchrun --nproc_per_node 2 unknown.py"},
		"a value with spaces":   {"python argparse_train.py", nil, values{KnobCheckpointDir: "my runs"}, "python argparse_train.py --save-dir=my runs"},
	} {
		t.Run(name, func(t *testing.T) {
			argv := fields(c.command)
			m := ReadCommand(argv, commandsDir).Mapping(c.own)
			got, err := m.Apply(argv, c.set)
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("have %q (%v), want %q\n%+v", strings.Join(got, " "), err, c.want, m)
			}
			if strings.Join(argv, " ") != c.command {
				t.Errorf("the argv given was changed: %q", argv)
			}
			again, err := m.Apply(got, c.set)
			if err != nil || !slices.Equal(again, got) {
				t.Errorf("applied again: %q (%v)", again, err)
			}
		})
	}
}

// TestApplyOverride: a value that hydra would take for several is quoted, once.
func TestApplyOverride(t *testing.T) {
	m := map[string]string{KnobResume: "ckpt_path={path}"}
	for _, c := range [][3]string{
		{"python hydra_train.py", "/runs/last.ckpt", "ckpt_path=/runs/last.ckpt"},
		{"python hydra_train.py", "/runs/epoch=3-step=512.ckpt", "ckpt_path='/runs/epoch=3-step=512.ckpt'"},
		{"python hydra_train.py", "/runs/it's [2].ckpt", `ckpt_path='/runs/it\'s [2].ckpt'`},
		{"python argparse_train.py", "/runs/epoch=3-step=512.ckpt", "ckpt_path=/runs/epoch=3-step=512.ckpt"},
	} {
		argv := fields(c[0])
		once, err := ReadCommand(argv, commandsDir).Mapping(m).Apply(argv, map[string]string{KnobResume: c[1]})
		if err != nil || once[len(once)-1] != c[2] {
			t.Errorf("%s: %q (%v), want %q", c[1], once, err, c[2])
			continue
		}
		if twice, _ := ReadCommand(once, commandsDir).Mapping(m).Apply(once, map[string]string{KnobResume: c[1]}); !slices.Equal(once, twice) {
			t.Errorf("%s: %q, applied again %q", c[1], once, twice)
		}
	}
}

// TestResumeSwitchOfHydra: a setting that is true or false takes no path of a checkpoint.
func TestResumeSwitchOfHydra(t *testing.T) {
	const script = "import hydra, torch\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    torch.load(cfg.resume)\nmain()"
	for config, want := range map[string]bool{"resume: null\n": true, "resume: false\n": false, "resume: True\nckpt_path: null\n": false} {
		dir := t.TempDir()
		for name, text := range map[string]string{"train.py": script, "conf/config.yaml": config} {
			path := filepath.Join(dir, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		argv := []string{"python", "train.py"}
		got, err := ReadCommand(argv, dir).Mapping(nil).Apply(argv, map[string]string{KnobResume: "/runs/last.pt"})
		if (err == nil) != want {
			t.Errorf("%q: %q (%v), want a path given to the script: %t", config, got, err, want)
		}
	}
}

// TestApplyRefuses: a knob that cannot reach the script is an error, not a guess.
func TestApplyRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		command string
		own     map[string]string
		set     map[string]string
	}{
		"no argument for it":         {"python loop.py", nil, map[string]string{KnobBatchSize: "8"}},
		"an unknown knob":            {"python argparse_train.py", nil, map[string]string{"width": "8"}},
		"no value":                   {"python argparse_train.py", nil, map[string]string{KnobBatchSize: ""}},
		"a line break":               {"python argparse_train.py", nil, map[string]string{KnobCheckpointDir: "a\nb"}},
		"inside a shell script":      {"bash launch.sh", nil, map[string]string{KnobBatchSize: "8"}},
		"own, inside a shell script": {"bash launch.sh", map[string]string{KnobBatchSize: "--batch-size={}"}, map[string]string{KnobBatchSize: "8"}},
		"computed by the script":     {"python dataclass_rl.py", nil, map[string]string{KnobBatchSize: "8"}},
	} {
		argv := fields(c.command)
		if got, err := ReadCommand(argv, commandsDir).Mapping(c.own).Apply(argv, c.set); err == nil {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// TestApplyKeepsOtherArguments: in random command lines, only the given argument changes, and setting it again
// changes nothing.
func TestApplyKeepsOtherArguments(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	others := []string{"--amp", "data", "--lr=0.1", "--lr", "0.1", "-x", "a=b", "--note", "-5", "--tags=--batch-size", "résumé", "", "-"}
	batch := [][]string{nil, {"-b", "3"}, {"-b3"}, {"--batch-size", "3"}, {"--batch-size=3"}, {"--batch_size=3"}}
	launch := [][]string{{"python", "argparse_train.py"}, {"torchrun", "--nproc_per_node=2", "argparse_train.py"}, {"nice", "-n", "3", "python", "-u", "argparse_train.py"}}
	for range 3000 {
		head := launch[rng.IntN(len(launch))]
		var before, after []string
		for range rng.IntN(5) {
			before = append(before, others[rng.IntN(len(others))])
		}
		if n := len(before); n > 0 && strings.HasPrefix(before[n-1], "-") {
			before = append(before, "end") // prevents an option from taking -b as its value
		}
		if rng.IntN(3) == 0 {
			after = append([]string{"--"}, others[rng.IntN(len(others))])
		}
		now := batch[rng.IntN(len(batch))]
		argv := slices.Concat(head, before, now, after)
		m := ReadCommand(argv, commandsDir).Mapping(nil)
		got, err := m.Apply(argv, map[string]string{KnobBatchSize: "77"})
		if err != nil {
			t.Fatalf("%q: %v", argv, err)
		}
		again, _ := m.Apply(got, map[string]string{KnobBatchSize: "77"})
		rest := slices.Concat(head, before, after)
		own := 1
		if len(now) == 2 {
			own = 2
		}
		at := len(head) + len(before)
		kept := slices.Concat(got[:at], got[min(len(got), at+own):])
		if !slices.Equal(kept, rest) || !slices.Equal(again, got) || !strings.Contains(strings.Join(got[at:at+own], " "), "77") {
			t.Fatalf("%q became %q, then %q", argv, got, again)
		}
	}
}

func TestParseKnob(t *testing.T) {
	for text, want := range map[string]string{
		"batch_size=--bs={}":                        "batch_size|--bs={}",
		"batch-size=--bs":                           "batch_size|--bs={}",
		"resume=--init_from=resume":                 "resume|--init_from=resume",
		"resume=--resume":                           "resume|--resume",
		"resume=--resume_from_checkpoint  {latest}": "resume|--resume_from_checkpoint {latest}",
		"workers=data.num_workers={}":               "workers|data.num_workers={}",
		"batch_size":                                "error",
		"batch_size=":                               "error",
		"width=--w={}":                              "error",
		"batch_size=--bs={size}":                    "error",
		"batch_size=--bs=64":                        "error",
	} {
		name, template, err := ParseKnob(text)
		got := name + "|" + template
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: have %q (%v), want %q", text, got, err, want)
		}
	}
}

// TestPresent: the present value is that of the command line, or else the script's default.
func TestPresent(t *testing.T) {
	for command, want := range map[string]string{
		"python argparse_train.py":                     "64",
		"python argparse_train.py -b 32":               "32",
		"python lightning_cli.py fit":                  "32",
		"python hydra_train.py":                        "16",
		"python constants.py constants_small.py":       "4",
		"trl sft --per_device_train_batch_size 8":      "8",
		"python argparse_train.py --resume x.pt -b=12": "12",
	} {
		k, ok := ReadCommand(fields(command), commandsDir).Mapping(nil).Knob(KnobBatchSize)
		if !ok || k.Present != want {
			t.Errorf("%s: %+v, want %s", command, k, want)
		}
	}
}

// TestMergedCommandLine: a checkpoint in a configuration is an argument if OmegaConf merges the command line last and the script
// loads it.
func TestMergedCommandLine(t *testing.T) {
	const script = "import argparse, torch\nfrom omegaconf import OmegaConf\np = argparse.ArgumentParser()\np.add_argument('--config')\n" +
		"args, rest = p.parse_known_args()\ncli = OmegaConf.from_cli(rest)\ncfg = OmegaConf.merge(OmegaConf.load(args.config), cli)\n" +
		"if cfg.train.resume:\n    state = torch.load(cfg.train.resume)\n"
	for name, c := range map[string]struct{ script, setting, want string }{
		"merged last":           {script, "null", "train.resume={path}"},
		"in place":              {strings.Replace(script, ", cli)", ", OmegaConf.from_cli(rest))", 1), "", "train.resume={path}"},
		"merged first":          {strings.Replace(script, "(OmegaConf.load(args.config), cli)", "(cli, OmegaConf.load(args.config))", 1), "null", ""},
		"not merged":            {strings.Replace(script, "OmegaConf.merge(OmegaConf.load(args.config), cli)", "OmegaConf.load(args.config)", 1), "null", ""},
		"rejected by a parser":  {strings.Replace(script, "args, rest = p.parse_known_args()", "args, rest = p.parse_args(), None", 1), "null", ""},
		"not a path":            {script, "false", ""},
		"only tested, no state": {strings.Replace(script, "torch.load(cfg.train.resume)", "restore()", 1), "null", ""},
	} {
		dir := t.TempDir()
		for file, text := range map[string]string{"train.py": c.script, "x.yaml": "train:\n  lr: 0.1\n  resume: " + c.setting + "\n"} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		k, _ := ReadCommand([]string{"python3", "train.py", "--config", "x.yaml"}, dir).Mapping(nil).Knob(KnobResume)
		if k.Template != c.want {
			t.Errorf("%s: %q, want %q", name, k.Template, c.want)
		}
	}
}

func TestResumption(t *testing.T) {
	for command, want := range map[string]string{
		"python argparse_train.py":                    "argument file",
		"python hf_run.py --output_dir o":             "argument directory checkpoint-*",
		"python hf_fixed.py":                          "none ",
		"trl sft":                                     "argument directory checkpoint-*",
		"python constants.py":                         "argument ",
		"python lightning_cli.py fit":                 "argument file *.ckpt",
		"python lightning_cli.py":                     "none ",
		"python lightning_trainer.py":                 "itself ",
		"python positional.py 5 1":                    "itself ",
		"python pretrained_if_there.py":               "none ",
		"yolo train":                                  "argument file last.pt",
		"python ../../../../examples/train_torch.py":  "protocol ",
		"python ../../../../examples/train_digits.py": "protocol ",
		"bash launch.sh":                              "none ",
		"python loop.py":                              "none ",
		"./unknown":                                   "none ",
	} {
		c := ReadCommand(fields(command), commandsDir)
		r := c.Resumption(c.Mapping(nil))
		if got := strings.TrimSpace(r.How + " " + r.Wants + " " + strings.Join(r.Names, " ")); got != strings.TrimSpace(want) {
			t.Errorf("%s: have %q, want %q (%v)", command, got, want, r.Evidence)
		}
		if r.How != ResumeNone && len(r.Evidence) == 0 {
			t.Errorf("%s: no evidence", command)
		}
	}
	for command, want := range map[string]string{
		"python positional.py 5 1":        resumeTakesFile,
		"python hf_run.py --output_dir o": resumeTakesDirectory,
		"llamafactory-cli train x.yaml":   resumeTakesAny,
		"python -m installed.train":       resumeTakesAny,
	} {
		c := ReadCommand(fields(command), commandsDir)
		r := c.Resumption(c.Mapping(map[string]string{KnobResume: "--from {path}"}))
		if r.How != ResumeArgument || r.Wants != want || r.Takes(true) != (want != resumeTakesFile) || r.Takes(false) != (want != resumeTakesDirectory) {
			t.Errorf("%s, the user's own knob: %+v, want %s", command, r, want)
		}
	}
}

// TestOwnFormat: a script that writes the file by which it continues resumes by it, without a word on checkpoints.
func TestOwnFormat(t *testing.T) {
	for save, want := range map[string]string{"pickle.dump((epoch, model), open('state.pkl', 'wb'))": "itself", "print(epoch)": "none"} {
		c := &Command{source: parse("import os, pickle\nepoch = 0\nif os.path.exists('state.pkl'):\n    epoch, model = pickle.load(open('state.pkl', 'rb'))\nfor epoch in range(epoch, 9):\n    " + save + "\n")}
		if r := c.Resumption(Mapping{}); r.How != want {
			t.Errorf("%s: %+v, want %s", save, r, want)
		}
		stop := parse("import signal\nsignal.signal(signal.SIGUSR1, stop)\n" + strings.Join(c.source.lines, "\n"))
		if is, _, _ := stop.resumable(); (is.Value == "yes") != (want == "itself") {
			t.Errorf("%s, on a signal: resumable %s", save, is.Value)
		}
	}
}

// TestLoadsSnapshot: a check for the existence of a snapshot counts, unless it depends on an argument that is unset
// by default or does not restore progress.
func TestLoadsSnapshot(t *testing.T) {
	const options = "import argparse, os, glob, torch\np = argparse.ArgumentParser()\np.add_argument('--resume', default=None)\np.add_argument('--go', action='store_true')\np.add_argument('--snapshot', default='s.pt')\na = p.parse_args()\n"
	for name, c := range map[string]struct {
		body string
		want string
	}{
		"exists":                   {"if os.path.exists('c'):\n    epoch = torch.load('c')['epoch']", "yes"},
		"exists, of an option":     {"if os.path.exists(a.snapshot):\n    epoch = torch.load(a.snapshot)['epoch']", "yes"},
		"unset option":             {"if a.resume and os.path.exists(a.resume):\n    epoch = torch.load(a.resume)['epoch']", ""},
		"under an option":          {"if a.resume:\n    if os.path.isfile('c'):\n        epoch = torch.load('c')['epoch']", ""},
		"under a toggle":           {"if a.go and os.path.exists('c'):\n    epoch = torch.load('c')['epoch']", ""},
		"weights alone":            {"if os.path.exists('c'):\n    m.load_state_dict(torch.load('c'))", ""},
		"not there":                {"if not os.path.exists('c'):\n    epoch = torch.load('d')['epoch']", ""},
		"caught":                   {"try:\n    epoch = torch.load('c')['epoch']\nexcept FileNotFoundError:\n    epoch = 0", "yes"},
		"found by glob":            {"files = sorted(glob.glob('*.pt'))\nif files:\n    step = torch.load(files[-1])['step']", "yes"},
		"own function":             {"def load_checkpoint(f):\n    return torch.load(f)['epoch']\nif os.path.exists('c'):\n    n = load_checkpoint('c')", "yes"},
		"of what follows a return": {"def resume(f):\n    if not os.path.exists(f):\n        return 0\n    return torch.load(f)['epoch']\nstart = resume('c')", "yes"},
		"of the other branch":      {"if not os.path.isfile('c'):\n    epoch = 0\nelse:\n    epoch = torch.load('c')['epoch']", "yes"},
		"found by a function":      {"def newest(d):\n    found = sorted(glob.glob(d + '/*.pt'))\n    return found[-1] if found else None\npath = newest('d')\nif path is not None:\n    epoch = torch.load(path)['epoch']", "yes"},
		"not found":                {"files = glob.glob('*.pt')\nif len(files) == 0:\n    epoch = torch.load('d')['epoch']", ""},
		"conditional expression":   {"import json\nstate = json.load(open('c')) if os.path.exists('c') else {'epoch': 0}", "yes"},
		"returned":                 {"import pickle\ndef state(f):\n    try:\n        return pickle.load(open(f, 'rb'))\n    except OSError:\n        return None\nc = state('c')\nepoch = c['epoch'] if c else 0", "yes"},
		"Hugging Face":             {"trainer.train(resume_from_checkpoint=any(glob.glob('out/checkpoint-*')))", "yes"},
		"Lightning":                {"trainer.fit(net, ckpt_path='c.ckpt' if os.path.exists('c.ckpt') else None)", "yes"},
		"a configuration":          {"import json\ncfg = {'epochs': 9, 'optimizer': 'adam'}\nif os.path.exists('config.json'):\n    cfg.update(json.load(open('config.json')))\n    epochs = cfg['epochs']", ""},
		"cached data":              {"import pickle\nif os.path.exists('data.pkl'):\n    x, y, n_steps = pickle.load(open('data.pkl', 'rb'))", ""},
		"weights, announced":       {"if os.path.exists('c'):\n    m.load_state_dict(torch.load('c'))\n    print('loaded weights, starting with epoch 1')", ""},
		"the best of the training": {"for epoch in range(9):\n    torch.save({'epoch': epoch}, 'best.pt')\nif os.path.exists('best.pt'):\n    print(torch.load('best.pt')['epoch'])", ""},
		"in the training":          {"while True:\n    if os.path.exists('c'):\n        epoch = torch.load('c')['epoch']\n    torch.save({'epoch': epoch}, 'c')", "yes"},
		"under an argument":        {"import sys\nif '--more' in sys.argv and os.path.exists('c'):\n    epoch = torch.load('c')['epoch']", ""},
		"by a variable of it":      {"import sys\nMORE = '--more' in sys.argv\nif MORE and os.path.exists('c'):\n    epoch = torch.load('c')['epoch']", ""},
		"called by an option":      {"def load(f):\n    if os.path.isfile(f):\n        return torch.load(f)['epoch']\nif a.resume:\n    start = load(a.resume)", ""},
		"called with an option":    {"def begin(f):\n    if f and os.path.isfile(f):\n        return torch.load(f)['epoch']\nstart = begin(a.resume)", ""},
		"called in every case":     {"def begin(f):\n    if os.path.isfile(f):\n        return torch.load(f)['epoch']\nstart = begin('c')", "yes"},
		"DeepSpeed":                {"import deepspeed\ne, _, _, _ = deepspeed.initialize(model=net)\npath, client = e.load_checkpoint('d')\nif path is not None:\n    step = client['step']", "yes"},
		"DeepSpeed, weights":       {"import deepspeed\ne, _, _, _ = deepspeed.initialize(model=net)\ne.load_checkpoint('d', load_optimizer_states=False)\nfor step in range(9):\n    e.save_checkpoint('d')", ""},
		"DeepSpeed, by an option":  {"import deepspeed\ne, _, _, _ = deepspeed.initialize(model=net)\n_, client = e.load_checkpoint(a.resume)\nstep = client['step']", ""},
		"orbax":                    {"import orbax.checkpoint as ocp\nm = ocp.CheckpointManager('d')\nfirst = 0\nstep = m.latest_step()\nif step is not None:\n    state = m.restore(step)\n    first = step + 1\nfor step in range(first, 9):\n    m.save(step, state)", "yes"},
		"orbax, directly":          {"import orbax.checkpoint as ocp\nm = ocp.CheckpointManager('d')\nif m.latest_step() is not None:\n    first = m.latest_step()\n    state = m.restore(first)\nwhile first < 9:\n    first += 1", "yes"},
		"orbax, weights":           {"import orbax.checkpoint as ocp\nm = ocp.CheckpointManager('d')\nstep = m.latest_step()\nif step is not None:\n    state = m.restore(step)\nfor step in range(9):\n    m.save(step, state)", ""},
		"TensorFlow":               {"import tensorflow as tf\nc = tf.train.Checkpoint(epoch=tf.Variable(0), net=net)\nm = tf.train.CheckpointManager(c, 'd', max_to_keep=1)\nc.restore(m.latest_checkpoint)\nfor epoch in range(int(c.epoch), 9):\n    m.save()", "yes"},
		"TensorFlow, a condition":  {"import tensorflow as tf\nm = tf.train.CheckpointManager(c, 'd', max_to_keep=1)\nif m.latest_checkpoint:\n    first = int(m.latest_checkpoint.split('-')[-1])\n    c.restore(m.latest_checkpoint)\nfor epoch in range(first, 9):\n    m.save()", "yes"},
		"TensorFlow, a variable":   {"import tensorflow as tf\nstep = tf.Variable(0)\nc = tf.train.Checkpoint(step=step, net=net)\nm = tf.train.CheckpointManager(c, 'd', max_to_keep=1)\nm.restore_or_initialize()\nwhile int(step) < 9:\n    m.save()", "yes"},
		"TensorFlow, all again":    {"import tensorflow as tf\nc = tf.train.Checkpoint(step=tf.Variable(0), net=net)\nm = tf.train.CheckpointManager(c, 'd', max_to_keep=1)\nc.restore(m.latest_checkpoint)\nif m.latest_checkpoint:\n    print('restored', m.latest_checkpoint)\nfor _ in range(9):\n    c.step.assign_add(1)\n    m.save()", ""},
		"accelerate":               {"if os.path.isdir('d'):\n    accelerator.load_state('d')\n    first = int(open('d/n').read())\nfor epoch in range(first, 9):\n    accelerator.save_state('d')", "yes"},
		"accelerate, all again":    {"if os.path.isdir('d'):\n    accelerator.load_state('d')\n    print('loaded')\nfor _ in range(9):\n    accelerator.save_state('d')", ""},
		"an iterator of data":      {"if os.path.exists('c'):\n    data = torch.load('c')\nbatches = data.get_iterator('train', 32)\nx = data.get_iter()", ""},
		"the device of it":         {"if os.path.exists('c'):\n    args.optimizer_device = torch.load('c')", ""},
		"a criterion":              {"if os.path.exists('c'):\n    data = torch.load('c')\n    loss = data['criterion']\n    writer.add(data)", ""},
		"in a hook":                {"def main():\n    def hook(models, folder):\n        if os.path.exists(folder):\n            start = torch.load(folder)['epoch']\n    accelerator.register_load_state_pre_hook(hook)\nmain()", ""},
		"in an inner function":     {"def main():\n    def resume():\n        if os.path.exists('c'):\n            return torch.load('c')['epoch']\n    start = resume()\nmain()", "yes"},
		"in a method":              {"class Net(LightningModule):\n    def on_fit_start(self):\n        if os.path.exists('c'):\n            self.start = torch.load('c')['epoch']", "yes"},
		"camel case":               {"if os.path.exists('c'):\n    first = torch.load('c')['lastEpoch']", "yes"},
		"with a suffix":            {"if os.path.exists('c'):\n    first = torch.load('c')['epoch_idx']", "yes"},
		"an attribute":             {"class Job:\n    def __init__(self):\n        if os.path.exists('c'):\n            self.first = read(torch.load('c'))\n    def run(self):\n        for i in range(self.first, 9):\n            self.save(i)\nJob().run()", "yes"},
		"another attribute":        {"class Labels:\n    def __init__(self):\n        self.n = 9\n        if os.path.exists('c'):\n            self.labels = torch.load('c')\n    def __iter__(self):\n        while self.n > 0:\n            self.n -= 1\n            yield self.labels[self.n]\ndata = Labels()", ""},
		"a variable elsewhere":     {"def labels():\n    if os.path.exists('c'):\n        first = torch.load('c')\n    return first\ndef run(first):\n    for i in range(first, 9):\n        pass\nx = labels()", ""},
		"torch.distributed":        {"import torch.distributed.checkpoint as dcp\nstate = {'model': m, 'step': 0}\nif os.path.isdir('d'):\n    dcp.load(state, checkpoint_id='d')\nfor step in range(state['step'], 9):\n    dcp.save(state, checkpoint_id='d')", "yes"},
		"keras":                    {"import keras\nm.fit(callbacks=[keras.callbacks.BackupAndRestore('b')])", "yes"},
	} {
		if got, _ := parse(options + c.body + "\n").loadsSnapshot(); got.Value != c.want {
			t.Errorf("%s: have %+v, want %q", name, got, c.want)
		}
	}
}

// TestSnapshotNames: the files from which a script continues have the names in its condition, directly or by variables.
func TestSnapshotNames(t *testing.T) {
	const head, load = "import os, json, pickle\nfrom pathlib import Path\n", ":\n    epoch = pickle.load(open(x))['epoch']\n"
	for name, c := range map[string]struct{ src, want string }{
		"a literal":     {"if os.path.exists('out/state.pkl')" + load, "state.pkl"},
		"variables":     {"NAME = 'state.joblib'\npath = os.path.join(out, NAME)\nif os.path.exists(path)" + load, "state.joblib"},
		"an option":     {"p.add_argument('--state', default='s.npz')\nif os.path.isfile(args.state)" + load, "s.npz"},
		"pathlib":       {"state = Path('out') / 'state.json'\nif state.exists()" + load, "state.json"},
		"a pattern":     {"import glob\nfound = glob.glob('out/it*.pkl')\nif found" + load, "it*.pkl"},
		"a format":      {"if os.path.exists('out/run-%03d.pkl' % seed)" + load, "run-*.pkl"},
		"an f-string":   {"state = f'{out}/run-{seed}.pkl'\nif os.path.exists(state)" + load, "run-*.pkl"},
		"caught":        {"try:\n    epoch = json.load(open('progress.json'))['epoch']\nexcept FileNotFoundError:\n    epoch = 0\n", "progress.json"},
		"of no file":    {"if os.path.exists(directory)" + load, ""},
		"of its folder": {"if os.path.exists('out/run')" + load, ""},
	} {
		if f, names := parse(head + c.src).loadsSnapshot(); f.Value != "yes" || strings.Join(names, " ") != c.want {
			t.Errorf("%s: %q %q, want %q", name, f.Value, names, c.want)
		}
	}
}

func TestHandlesInterrupt(t *testing.T) {
	for name, c := range map[string]struct{ src, want string }{
		"around the loop":   {"try:\n    for epoch in range(3):\n        train()\nexcept KeyboardInterrupt:\n    print('testing')\n", "yes@4"},
		"around the call":   {"try:\n    train()\nexcept (KeyboardInterrupt, ValueError):\n    save()\n", "yes@3"},
		"a handler":         {"import signal\nsignal.signal(signal.SIGINT, stop)\n", "yes@2"},
		"ignored":           {"import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n", ""},
		"leaves at once":    {"import sys\ntry:\n    train()\nexcept KeyboardInterrupt:\n    sys.exit(1)\n", ""},
		"raises it again":   {"try:\n    train()\nexcept KeyboardInterrupt:\n    raise\n", ""},
		"saves, leaves":     {"import sys, torch\ntry:\n    train()\nexcept KeyboardInterrupt:\n    torch.save(net.state_dict(), 'INTERRUPTED.pth')\n    sys.exit(0)\n", "yes@4"},
		"saves, raises":     {"import json\ntry:\n    for epoch in range(3):\n        train()\nexcept KeyboardInterrupt:\n    json.dump(state, f)\n    raise\n", "yes@5"},
		"saves by its own":  {"try:\n    train()\nexcept KeyboardInterrupt:\n    trainer.save_last()\n    quit()\n", "yes@3"},
		"names a save":      {"try:\n    train()\nexcept KeyboardInterrupt:\n    print(saved)\n    quit()\n", ""},
		"of something else": {"try:\n    download()\nexcept KeyboardInterrupt:\n    print('no data')\n", ""},
		"other exceptions":  {"try:\n    train()\nexcept ValueError:\n    pass\n", ""},
	} {
		if got := shown(inspectPython([]byte(c.src)).HandlesInterrupt); got != c.want {
			t.Errorf("%s: have %q, want %q", name, got, c.want)
		}
	}
}

func FuzzReadCommand(f *testing.F) {
	f.Add("torchrun --nproc_per_node=2 argparse_train.py -b 3 -- x")
	f.Add("bash -c 'python constants.py --max_iters=3'")
	f.Add("A=1 python -m torch.distributed.run -m x --")
	f.Fuzz(func(t *testing.T, text string) {
		argv := fields(text)
		c := ReadCommand(argv, commandsDir)
		for _, l := range c.Lengths() {
			if !(l.Units > 0) {
				t.Errorf("%q: %+v", text, l)
			}
		}
		if n := c.LocalRanks(2, 2); n < 1 {
			t.Errorf("%q: %d ranks", text, n)
		}
		m := c.Mapping(nil)
		c.Resumption(m)
		set := map[string]string{}
		for _, k := range m.Knobs {
			set[k.Name] = "5"
		}
		if got, err := m.Apply(argv, set); err == nil {
			if again, err := m.Apply(got, set); err != nil || !slices.Equal(again, got) {
				t.Errorf("%q: %q, applied again %q (%v)", text, got, again, err)
			}
		}
	})
}

// TestResumptionInModules: an option and the code that loads may be in other files of the directory of the script; functions there that
// the script does not call do not count, nor do their options.
func TestResumptionInModules(t *testing.T) {
	const utils = `import argparse, os, torch
def parser():
    p = argparse.ArgumentParser()
    p.add_argument("--resume", default="")
    return p
def load_checkpoint(path):
    c = torch.load(path)
    return c["epoch"]
def begin(path):
    if os.path.exists(path):
        return torch.load(path)["epoch"]
    return 0
def save(state, path):
    torch.save(state, path)
`
	const load = "    path = 'other.pt'\n    return torch.load(path)"
	const train = "\nfor epoch in range(start, 9):\n    save({'epoch': epoch + 1}, 'c.pt')\n"
	for name, c := range map[string]struct{ body, want string }{
		"an option":          {"from utils import load_checkpoint, parser, save\nargs = parser().parse_args()\nstart = 0\nif args.resume:\n    start = load_checkpoint(args.resume)", "--resume={path} (option --resume in line 4 of utils.py, loaded in line 6)"},
		"a function":         {"from utils import begin, save\nstart = begin('c.pt')", "line 10 of utils.py: if os.path.exists(path):"},
		"of its own package": {"import sys\nsys.path.append('..')\nfrom trainer.utils import begin, save\nstart = begin('c.pt')", "line 10 of utils.py: if os.path.exists(path):"},
		"of the module":      {"import utils\nfrom utils import save\nstart = utils.begin('c.pt')", "line 10 of utils.py: if os.path.exists(path):"},
		"its own condition":  {"import os\nfrom utils import load_checkpoint, save\nstart = 0\nif os.path.exists('c.pt'):\n    start = load_checkpoint('c.pt')", "line 5: if os.path.exists('c.pt'):"},
		"its own variable":   {"import os\nfrom utils import load_checkpoint, save\nstart, path = 0, ''\npath = 'c.pt'\nif os.path.exists(path):\n    start = load_checkpoint(path)", "line 6: if os.path.exists(path):"},
		"not called":         {"from utils import save\nstart = 0", ""},
		"called by argument": {"from utils import begin, parser, save\nargs = parser().parse_args()\nstart = 0\nif args.resume:\n    start = begin(args.resume)", "--resume={path} (option --resume in line 4 of utils.py, loaded in line 6)"},
		"not there":          {"from others import begin, save\nstart = begin('c.pt')", ""},
	} {
		dir := filepath.Join(t.TempDir(), "trainer")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{"utils.py": utils + "def weights():\n" + load + "\n", "t.py": "import torch\n" + c.body + train} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		command := ReadCommand([]string{"python", "t.py"}, dir)
		m := command.Mapping(nil)
		r := command.Resumption(m)
		if strings.Join(r.Evidence, " ") != c.want || len(m.Notes) > 0 {
			t.Errorf("%s: %+v %q, want %q", name, r, m.Notes, c.want)
		}
		if name == "its own variable" && strings.Join(r.Snapshots, " ") != "c.pt" {
			t.Errorf("%s: snapshots %q, want c.pt", name, r.Snapshots)
		}
	}
}

// TestResumptionInPackages: a script imports from the root of its package, which may have no file, and the first file counts.
func TestResumptionInPackages(t *testing.T) {
	const begin = "import torch\ndef begin(path):\n    return torch.load(path)['epoch']\n"
	dir := t.TempDir()
	for file, text := range map[string]string{
		"models/gpt/train.py": "import argparse\nfrom models.gpt.state import begin\nfrom models.save import save\np = argparse.ArgumentParser()\np.add_argument('--load', default='')\nargs = p.parse_args()\nstart = 0\nif args.load:\n    start = begin(args.load)\nfor epoch in range(start, 9):\n    save({'epoch': epoch + 1}, 'c.pt')\n",
		"models/gpt/state.py": begin, "models/state.py": "def begin(path):\n    return 0\n", "models/save.py": "import torch\ndef save(state, path):\n    torch.save(state, path)\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const want = "--load={path} (option --load in line 5, loaded in line 9)"
	for _, argv := range [][]string{{"python", "-m", "models.gpt.train"}, {"python", "models/gpt/train.py"}} {
		command := ReadCommand(argv, dir)
		if r := command.Resumption(command.Mapping(nil)); strings.Join(r.Evidence, " ") != want {
			t.Errorf("%q: %+v, want %q", argv, r, want)
		}
	}
}
