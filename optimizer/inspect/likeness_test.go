package inspect

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLikenessOfTexts: comments and a learning rate do not count, a batch size does, and another script has a low
// similarity.
func TestLikenessOfTexts(t *testing.T) {
	data, err := os.ReadFile("testdata/commands/argparse_train.py")
	if err != nil {
		t.Fatal(err)
	}
	other, err := os.ReadFile("testdata/hf_trainer.py")
	if err != nil {
		t.Fatal(err)
	}
	script := string(data) + "optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)\nlearning_rate = 0.1\nprint('start')\n"
	script += "\ndef evaluate(model, loader):\n    good = 0\n    for x, y in loader:\n        good += (model(x).argmax(1) == y).sum()\n    return good / len(loader)\n"
	replace := func(was, is string) string {
		if !strings.Contains(script, was) {
			t.Fatalf("%q is not in the script", was)
		}
		return strings.Replace(script, was, is, 1)
	}
	for name, c := range map[string]struct {
		text  string
		equal bool
		least float64
		most  float64
	}{
		"itself":                 {script, true, 1, 1},
		"a comment":              {"# tried again\n" + script, true, 1, 1},
		"a blank line":           {replace("\nmain()", "\n\nmain()"), true, 1, 1},
		"a learning rate":        {replace("lr=0.1", "lr=3e-4"), true, 1, 1},
		"a constant rate":        {replace("learning_rate = 0.1", "learning_rate = 0.02"), true, 1, 1},
		"a seed's default":       {replace("default=3)", "default=4)"), true, 1, 1},
		"a printed text":         {replace("print('start')", "print('go', 1)"), true, 1, 1},
		"a batch size's default": {replace("default=64", "default=128"), false, 0.7, 0.99},
		"one more statement":     {script + "torch.set_num_threads(1)\n", false, 0.7, 1},
		"indented deeper":        {replace("\noptimizer = ", "\nif True:\n    optimizer = "), false, 0.7, 1},
		"another script":         {string(other), false, 0, 0.3},
	} {
		equal, similarity, ok := CompareLikeness(parse(script).likeness(), parse(c.text).likeness())
		if !ok || equal != c.equal || similarity < c.least || similarity > c.most {
			t.Errorf("%s: equal %t, similarity %.2f, ok %t; want %t, %.2f to %.2f", name, equal, similarity, ok, c.equal, c.least, c.most)
		}
	}
	for _, bad := range []string{"", "2:abc:def", "1:abc", "1:abc:$$$"} {
		if _, _, ok := CompareLikeness(bad, parse(script).likeness()); ok {
			t.Errorf("%q was compared", bad)
		}
	}
}

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct{ was, is, want string }{
		"equal":               {"python t.py -b 3", "python t.py -b 3", ""},
		"another spelling":    {"python t.py --batch-size 3", "python t.py --batch_size=3", ""},
		"another order":       {"python t.py --a=1 --b=2", "python t.py --b=2 --a=1", ""},
		"another interpreter": {"/usr/bin/python3 t.py", "/opt/bin/python3 t.py", ""},
		"a learning rate":     {"python t.py --lr 0.1", "python t.py --lr 0.2", "lr:0"},
		"hydra's":             {"python t.py optimizer.lr=0.1", "python t.py optimizer.lr=0.2", "optimizer.lr:0"},
		"a model's name":      {"python t.py model.name=a", "python t.py model.name=b", "model.name:2(1)"},
		"results":             {"python t.py --output_dir a --seed 1", "python t.py --output_dir b", "output_dir:0 seed:0"},
		"epochs":              {"python t.py --epochs 3", "python t.py --epochs 9", "epochs:1"},
		"epochs, singular":    {"python t.py --epoch 3", "python t.py --epoch 9", "epoch:1"},
		"resumed":             {"python t.py", "python t.py --resume a.pt", "resume:1"},
		"batch size":          {"python t.py -b 3 --batch-size 32", "python t.py -b 3 --batch-size 128", "batch_size:2(2)"},
		"a switch":            {"python t.py", "python t.py --big", "big:2(1)"},
		"a positional":        {"python t.py a b", "python t.py a c", "argument 2:2(1)"},
		"ranks":               {"torchrun --nproc_per_node=2 t.py", "torchrun --nproc_per_node=4 t.py", "nproc_per_node:2(1)"},
		"a port":              {"torchrun --master_port=1 t.py", "torchrun --master_port=2 t.py", "master_port:0"},
		"another program":     {"python t.py", "python u.py", "not comparable"},
		"another launcher":    {"python t.py", "torchrun t.py", "not comparable"},
		"another module":      {"python -m a", "python -m b", "not comparable"},
		"another command":     {"yolo train", "trl sft", "not comparable"},
	} {
		differ, ok := Compare(fields(c.was), fields(c.is))
		var got []string
		for _, d := range differ {
			text := fmt.Sprintf("%s:%d", d.Name, d.Effect)
			if d.Distance > 0 {
				text += fmt.Sprintf("(%g)", d.Distance)
			}
			got = append(got, text)
		}
		text := strings.Join(got, " ")
		if !ok {
			text = "not comparable"
		}
		if text != c.want {
			t.Errorf("%s: have %q, want %q", name, text, c.want)
		}
	}
}

// TestFilesDigest: a hash of modules, of scripts in a shell script and of configuration files changes with what may change the
// work, not with comments, a learning rate, the place of the files or the script's own text.
func TestFilesDigest(t *testing.T) {
	files := map[string]string{
		"train.py":       "import net\nfrom parts import block\nimport torch\np.add_argument('--config')\np.add_argument('data')\ntrain(net.Net(), block.Block())\n",
		"net.py":         "\"\"\"The network.\"\"\"\nlr = 0.1\nwidth = 64\n",
		"parts/block.py": "depth = 3\n",
		"unused.py":      "width = 1\n",
		"job.sh":         "#!/bin/sh\npython train.py --config job.yaml data.csv\n",
		"job.yaml":       "# first\noptimizer:\n  lr: 0.1\nepochs: 3\nmodel:\n  layers: [64, 64]\n  own: &own large\n  kind: &kind small\n  decoder: *kind\n",
		"data.csv":       "1,2\n",
		"alone.py":       "train()\n",
		"reader.py":      "import net\nc = yaml.safe_load(open('job.yaml'))\ns = yaml.safe_load(open('state.yaml'))\nyaml.dump(s, open('state.yaml', 'w'))\n",
		"state.yaml":     "done: 1\n",
	}
	digest := func(file, was, is, command string) string {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "parts"), 0o700); err != nil {
			t.Fatal(err)
		}
		for name, text := range files {
			if name == file {
				if text = strings.Replace(text, was, is, 1); text == files[name] {
					t.Fatalf("%q is not in %s", was, file)
				}
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return ReadCommand(fields(command), dir).FilesDigest
	}
	const command = "python train.py --config job.yaml data.csv"
	for name, c := range map[string]struct {
		command, file, was, is string
		changes                bool
	}{
		"nothing":                     {command, "", "", "", false},
		"a comment in a module":       {command, "net.py", "lr", "# faster\nlr", false},
		"the docstring of a module":   {command, "net.py", "The", "A", false},
		"a module's learning rate":    {command, "net.py", "0.1", "0.2", false},
		"a module's width":            {command, "net.py", "64", "128", true},
		"a module of a package":       {command, "parts/block.py", "3", "4", true},
		"another file":                {command, "unused.py", "1", "2", false},
		"data":                        {command, "data.csv", "1", "2", false},
		"the script":                  {command, "train.py", "net.Net()", "net.Net(8)", false},
		"a comment of a setting":      {command, "job.yaml", "first", "second", false},
		"a setting's learning rate":   {command, "job.yaml", "0.1", "0.2", false},
		"the length in a setting":     {command, "job.yaml", "epochs: 3", "epochs: 5", true},
		"a list in a setting":         {command, "job.yaml", "[64, 64]", "[64, 128]", true},
		"a setting by reference":      {command, "job.yaml", "*kind", "*own", true},
		"a configuration not named":   {"python train.py data.csv", "job.yaml", "epochs: 3", "epochs: 5", false},
		"a configuration in the code": {"python reader.py", "job.yaml", "epochs: 3", "epochs: 5", true},
		"a state of the script":       {"python reader.py", "state.yaml", "1", "2", false},
		"a script in a shell script":  {"sh job.sh", "train.py", "net.Net()", "net.Net(8)", true},
		"a module of such a script":   {"sh job.sh", "net.py", "64", "128", true},
		"a configuration named there": {"sh job.sh", "job.yaml", "epochs: 3", "epochs: 5", true},
		"a comment in such a script":  {"sh job.sh", "train.py", "import torch", "import torch # 2", false},
	} {
		before, now := digest("", "", "", c.command), digest(c.file, c.was, c.is, c.command)
		if before == "" || now == "" || before != now != c.changes {
			t.Errorf("%s: %q, then %q; want a change: %t", name, before, now, c.changes)
		}
	}
	if got := digest("", "", "", "python alone.py data.csv"); got != "" {
		t.Errorf("%q of a script without modules and configuration", got)
	}
	large := strings.Repeat("#", maxWhole) + "\n"
	files["net.py"] = large + files["net.py"]
	if before, now := digest("", "", "", command), digest("net.py", "64", "128", command); before == now {
		t.Errorf("a module of more than %d bytes was changed unnoticed", maxWhole)
	}
}
