package inspect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// resumeScript returns a training with an option, the code that uses it, and functions.
func resumeScript(option, code, functions string) string {
	return `import argparse, os, torch
from torch import nn
def options():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    ` + strings.ReplaceAll(option, "\n", "\n    ") + `
    return p.parse_args()
` + functions + `
def main():
    args = options()
    model = nn.Linear(2, 2)
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    start = 0
    ` + strings.ReplaceAll(code, "\n", "\n    ") + `
    for epoch in range(start, args.epochs):
        opt.step()
        torch.save({"epoch": epoch + 1, "model": model.state_dict(), "optimizer": opt.state_dict()}, "ckpt.pt")
main()
`
}

// TestResumeOption: an option resumes a training if the script restores progress by it, whatever its name, and not by
// its name alone.
func TestResumeOption(t *testing.T) {
	const load = "    c = torch.load(%)\n    start = c[\"epoch\"]\n    model.load_state_dict(c[\"model\"])"
	by := func(condition, path string) string {
		return condition + ":\n" + strings.ReplaceAll(load, "%", path)
	}
	for name, c := range map[string]struct{ option, code, functions, want string }{
		"a path":             {`p.add_argument("--resume", default=None)`, by("if args.resume", "args.resume"), "", "--resume={path}"},
		"a toggle":           {`p.add_argument("--resume", action="store_true")`, by(`if args.resume and os.path.exists("ckpt.pt")`, `"ckpt.pt"`), "", "--resume"},
		"dashes":             {`p.add_argument("--resume-from-checkpoint", default="")`, by(`if args.resume_from_checkpoint != ""`, "args.resume_from_checkpoint"), "", "--resume-from-checkpoint={path}"},
		"another name":       {`p.add_argument("--load", default=None)`, by("if args.load is not None", "args.load"), "", "--load={path}"},
		"its own snapshot":   {`p.add_argument("--checkpoint", default="ckpt.pt")`, by("if os.path.exists(args.checkpoint)", "args.checkpoint"), "", "itself"},
		"through a variable": {`p.add_argument("--resume", default="")`, "path = args.resume\n" + by("if path and os.path.isfile(path)", "path"), "", "--resume={path}"},
		"a choice":           {`p.add_argument("--init_from", default="scratch", choices=["scratch", "resume"])`, by(`if args.init_from == "resume"`, `"ckpt.pt"`), "", "--init_from=resume"},
		"a dictionary":       {`p.add_argument("--ckpt", default="")`, "cfg = vars(args)\n" + by(`if cfg["ckpt"]`, `cfg["ckpt"]`), "", "--ckpt={path}"},
		"in the other branch": {`p.add_argument("--load", default=None)`, "if args.load is None:\n    print(\"new\")\n" + by("else", "args.load"), "",
			"--load={path}"},
		"a function": {`p.add_argument("--snapshot", default=None)`, "if args.snapshot:\n    start = load_snapshot(args.snapshot, model)",
			"def load_snapshot(path, model):\n    c = torch.load(path)\n    model.load_state_dict(c[\"model\"])\n    return c[\"epoch\"]", "--snapshot={path}"},
		"a toggle and a path": {"p.add_argument(\"--resume\", action=\"store_true\")\np.add_argument(\"--checkpoint\", default=\"\")", by("if args.resume", "args.checkpoint"), "", "--resume --checkpoint={path}"},
		"True or False":       {`p.add_argument("--resume", type=str2bool, default=False)`, by("if args.resume", `"ckpt.pt"`), "", "--resume=True"},
		"True and a path":     {"p.add_argument(\"--train_continue\", type=bool, default=False)\np.add_argument(\"--checkpoint\")", by("if args.train_continue", "args.checkpoint"), "", "--train_continue=True --checkpoint={path}"},
		"with an opposite":    {`p.add_argument("--resume", action=argparse.BooleanOptionalAction)`, by("if args.resume", `"ckpt.pt"`), "", "--resume"},
		"a pair of click":     {"@click.option(\"--resume/--no-resume\", default=False)\ndef unused(): pass", by("if resume", `"ckpt.pt"`), "", "--resume"},
		"a value of click":    {"@click.option(\"--resume\", default=False)\ndef unused(): pass", by("if resume", `"ckpt.pt"`), "", "--resume=True"},
		"a cache by default":  {`p.add_argument("--cached", type=bool, default=True)`, by("if args.cached", `"cache.pt"`), "", ""},
		"of typer":            {"pass", by("if resume", `"ckpt.pt"`), "import typer\ndef command(resume: bool = False): pass\ntyper.run(command)", "--resume"},
		"of a dataclass":      {"pass", by("if settings.resume", `"ckpt.pt"`), "@dataclass\nclass Settings:\n    resume: bool = False\nsettings = HfArgumentParser(Settings).parse_args_into_dataclasses()[0]", "--resume=True"},
		"a toggle, or a path": {"p.add_argument(\"--resume\", action=\"store_true\")\np.add_argument(\"--init_checkpoint\", default=None)", "if args.resume:\n    n = args.epochs if not args.init_checkpoint else 0\n    if not args.init_checkpoint:\n        c = torch.load(\"last-{}.pt\".format(n))\n    else:\n        c = torch.load(args.init_checkpoint)\n    start = c[\"epoch\"]", "",
			"--resume"},
		"a toggle and the second path": {"p.add_argument(\"--resume\", action=\"store_true\")\np.add_argument(\"--teacher_ckpt\", default=None)\np.add_argument(\"--checkpoint\", default=\"\")", "if args.teacher_ckpt:\n    t = torch.load(args.teacher_ckpt)\n    n = t[\"step\"]\n" + by("if args.resume", "args.checkpoint"), "",
			"--resume --checkpoint={path}"},
		"a path and a toggle": {"p.add_argument(\"--ckpt\", default=None)\np.add_argument(\"--go_on_from_checkpoint\", action=\"store_true\")", by("if args.go_on_from_checkpoint", "args.ckpt"), "", "--go_on_from_checkpoint --ckpt={path}"},
		"without a condition": {`p.add_argument("resume_dir", default="x")` + "\n" + `p.add_argument("--from", dest="start_from")`, "c = torch.load(args.start_from)\nstart = c.get(\"epoch\", 0)", "", "--from={path}"},
		"into a dictionary": {`p.add_argument("--resume", default="")`, "state = {\"model\": model, \"optimizer\": optimizer, \"epoch\": 0}\nif args.resume:\n    fabric.load(args.resume, state)", "",
			"--resume={path}"},
		"after a return":       {`p.add_argument("--snapshot", default=None)`, "start = restore_snapshot(args)", "def restore_snapshot(args):\n    if not args.snapshot:\n        return 0\n    return torch.load(args.snapshot)[\"epoch\"]", "--snapshot={path}"},
		"a parameter of click": {"@click.option(\"--resume\", default=None)\ndef unused(): pass", by("if resume", "resume"), "", "--resume={path}"},
		"another one of click": {"@click.option(\"--snapshot\", default=None)\ndef unused(): pass", "if snapshot:\n    accelerator.load_state(snapshot)\n    start = int(snapshot.split(\"_\")[-1])", "", "--snapshot={path}"},
		"a configuration":      {`p.add_argument("--config", default=None)`, "import json\nif args.config:\n    cfg = json.load(open(args.config))\n    args.epochs = cfg[\"epochs\"]", "", ""},
		"an evaluation":        {`p.add_argument("--evaluate", action="store_true")`, by("if args.evaluate", `"best.pt"`) + "\n    sys.exit()", "", ""},
		"in a library":         {`p.add_argument("--resume", default="")`, "from engine import train\ntrain(args)", "", "--resume={path}"},

		"in the arguments":         {"import sys", by(`if "--resume" in sys.argv`, `"ckpt.pt"`), "", "--resume"},
		"a variable of them":       {"import sys", "again = \"--resume\" in sys.argv\n" + by(`if again and os.path.exists("ckpt.pt")`, `"ckpt.pt"`), "", "--resume"},
		"the opposite":             {"import sys", by(`if "--fresh" not in sys.argv and os.path.exists("ckpt.pt")`, `"ckpt.pt"`), "", "itself"},
		"its own format":           {`p.add_argument("--resume", default="")`, "if args.resume:\n    start = int(open(args.resume).read())", "", "--resume={path}"},
		"a long call":              {`p.add_argument("--resume", action="store_true")`, "from mmengine.runner import Runner\nRunner(model=model, settings=dict(" + strings.Repeat("a=1, ", 30) + "b=2), resume=args.resume).train()", "", "--resume"},
		"a long call of a tracker": {`p.add_argument("--resume", default=None)`, "import wandb\nwandb.init(config=dict(" + strings.Repeat("a=1, ", 30) + "b=2), resume=args.resume)", "", ""},
		"the configuration of a runner": {`p.add_argument("--resume", nargs="?", const="auto")`, "from mmengine.runner import Runner\ncfg = Config.fromfile(\"c.py\")\nif args.resume == \"auto\":\n    cfg.resume = True\nelif args.resume is not None:\n    cfg.resume = True\n    cfg.load_from = args.resume\nRunner.from_cfg(cfg).train()",
			"", "--resume=auto"},
		"the same without a runner": {`p.add_argument("--resume", nargs="?", const="auto")`, "if args.resume == \"auto\":\n    cfg.resume = True", "", ""},
		"of a tracker":              {`p.add_argument("--resume", default=None)`, "import wandb\nwandb.init(project=\"x\", resume=args.resume)", "", ""},
		"a toggle, its own format":  {`p.add_argument("--resume", action="store_true")`, "import json\nif args.resume:\n    start = json.load(open(f\"{args.epochs}/state.json\"))", "", "--resume"},
		"unused":                    {`p.add_argument("--resume", action="store_true")`, "pass", "", ""},
		"printed":                   {`p.add_argument("--resume", default=None)`, "print(args.resume)", "", ""},
		"a folder":                  {`p.add_argument("--log_dir", default=None)`, "run = \"log\"\nif args.log_dir is not None:\n    run = os.path.join(run, args.log_dir)\ntry:\n    c = torch.load(str(run) + \"/checkpoints/best.pth\")\n    start = c[\"epoch\"]\nexcept:\n    start = 0", "", ""},
		"a folder, by a variable":   {`p.add_argument("--run", default=None)`, "path = os.path.join(args.run, \"last.pt\")\n" + by("if os.path.exists(path)", "path"), "", ""},
		"a folder, in a condition":  {`p.add_argument("--load_dir", default=None)`, by("if args.load_dir", `args.load_dir + "/last.pt"`), "", ""},
		"a folder, in a function":   {`p.add_argument("--load_dir", default=None)`, "start = load_state(args.load_dir)", "def load_state(folder):\n    path = os.path.join(folder, \"last.pt\")\n    return torch.load(path)[\"epoch\"]", ""},
		"a number":                  {`p.add_argument("--resume", type=int, default=0)`, by(`if args.resume and os.path.exists("ckpt.pt")`, `"ckpt.pt"`), "", "--resume=1"},
		"a number, compared":        {`p.add_argument("--train_continue", default=0, type=int, choices=[0, 1])`, by("if args.train_continue == 1", `"ckpt.pt"`), "", "--train_continue=1"},
		"the number of a file":      {`p.add_argument("--resume", type=int, default=-1)`, by("if args.resume != -1", `f"ckpt-{args.resume}.pt"`), "", ""},
		"a first epoch":             {`p.add_argument("--start_epoch", type=int, default=0)`, by("if args.start_epoch", `f"ckpt-{args.start_epoch}.pt"`), "", ""},
		"a number, in an expression": {`p.add_argument("--from_resume", default=0, type=int, choices=[0, 1])`, "c = checkpoint() if args.from_resume == 1 else None\nif c:\n    start = c[\"epoch\"]",
			"def checkpoint(state=None):\n    path = f\"out/{NAME}_resume.pt\"\n    if state is None and os.path.exists(path):\n        return torch.load(path)\n    torch.save(state, path)", "--from_resume=1"},
		"progress in the name": {`p.add_argument("--state", default=None)`, "if args.state is not None:\n    model.load_state_dict(torch.load(args.state, map_location=\"cpu\"))\n    tail = args.state[args.state.find(\"epoch=\") + 6:]\n    start_epoch = int(tail[:tail.find(\".\")]) + 1", "", "--state={path}"},
		"weights":              {`p.add_argument("--resume", default=None)`, "if args.resume:\n    model.load_state_dict(torch.load(args.resume))", "", ""},
		"weights, other name":  {`p.add_argument("--pretrained", default=None)`, "if args.pretrained:\n    model.load_state_dict(torch.load(args.pretrained))", "", ""},
		"a module of its name": {"p.add_argument(\"--amp\", action=\"store_true\")\np.add_argument(\"--ckpt\", default=None)", "scaler = torch.cuda.amp.GradScaler()\nif args.ckpt:\n    if scaler.is_enabled():\n        c = torch.load(args.ckpt)\n    else:\n        c = torch.load(args.ckpt, map_location=\"cpu\")\n    start = c[\"epoch\"]", "",
			"--ckpt={path}"},
		"a model by an option": {"p.add_argument(\"--arch\", default=None)\np.add_argument(\"--ckpt\", default=None)", "model = build(args.arch)\nif args.ckpt:\n    start = load_checkpoint(args.ckpt, model)",
			"def load_checkpoint(path, model):\n    c = torch.load(path)\n    model.load_state_dict(c[\"model\"])\n    return c[\"epoch\"]", "--ckpt={path}"},
		"found by an option": {`p.add_argument("--ckpt", default=None)`, "path = find_checkpoint(args.ckpt)\n" + by("if path is not None", "path"), "", "--ckpt={path}"},
		"another argument": {"p.add_argument(\"--folder\", default=None)\np.add_argument(\"--snapshot\", default=None)", "start = begin(args.folder, args.snapshot, model)",
			"def begin(folder, path, model):\n    os.makedirs(folder)\n    if path is not None:\n        return load_state(model, path)\ndef load_state(model, file):\n    c = torch.load(file)\n    model.load_state_dict(c[\"model\"])\n    return c[\"epoch\"]", "--snapshot={path}"},
		"an argument with a keyword": {"p.add_argument(\"--name\", default=None)\np.add_argument(\"--snapshot\", default=None)", "start = load_snapshot(name=args.name, file=args.snapshot)",
			"def load_snapshot(file, name):\n    with open(file, \"rb\") as f:\n        c = torch.load(f)\n    print(name)\n    return c[\"epoch\"]", "--snapshot={path}"},
		"progress in the name, weights in a variable": {`p.add_argument("--state", default=None)`, "if args.state is not None:\n    weights = torch.load(args.state)\n    model.load_state_dict(weights)\n    start_epoch = int(args.state[-4:-3]) + 1", "", "--state={path}"},
		"progress in the name, the model":             {`p.add_argument("--state", default=None)`, "if args.state is not None:\n    model = torch.load(args.state)\n    start_epoch = int(args.state[-4:-3]) + 1", "", "--state={path}"},
		"progress beside the weights":                 {`p.add_argument("--state", default=None)`, "if args.state is not None:\n    c = torch.load(args.state)\n    model.load_state_dict(c, strict=False)\n    start = c[\"epoch\"]", "", "--state={path}"},
		"a training":                                  {`p.add_argument("--do_train", action="store_true")`, "import pickle\nif args.do_train:\n    with open(\"cached\", \"rb\") as f:\n        x = pickle.load(f)\n    for step in x:\n        model(step).backward()", "", ""},
		"the rest of a function": {`p.add_argument("--deepspeed", action="store_true")`, "prepare(args)",
			"def prepare(args):\n    if not args.deepspeed:\n        return None\n    if args.offload_optimizer is not None:\n        builder().load()\n    return model", ""},
		"another load in the rest": {"p.add_argument(\"--folder\", default=None)\np.add_argument(\"--snapshot\", default=None)", "run(args)",
			"def run(args):\n    if args.folder is None and args.snapshot is None:\n        return\n    c = torch.load(args.snapshot)\n    start = c[\"epoch\"]", "--snapshot={path}"},
		"weights, counted": {`p.add_argument("--weights", default=None)`, "if args.weights:\n    c = torch.load(args.weights)\n    for step, value in enumerate(c):\n        model.weight[step] = value", "", ""},
		"a method named as a call in it": {`p.add_argument("--ckpt", default=None)`, "if args.ckpt:\n    Checkpointer().load(args.ckpt, model, opt)",
			"class Checkpointer:\n    def load(self, path, model, opt):\n        c = torch.load(path)\n        self.start = c[\"epoch\"]", "--ckpt={path}"},
		"a better name":            {"p.add_argument(\"--index\", default=None)\np.add_argument(\"--ckpt\", default=None)", "seen = torch.load(args.index)\nn = seen[\"step\"]\n" + by("if args.ckpt", "args.ckpt"), "", "--ckpt={path}"},
		"the folder of the output": {`p.add_argument("--workdir", default=None)`, "start = load_checkpoint(args.workdir)", "def load_checkpoint(folder):\n    c = torch.load(newest(folder))\n    return c[\"epoch\"]", ""},
		"a file in the data":       {`p.add_argument("--data_dir", default=None)`, "path = os.path.join(args.data_dir, name)\n" + by("if os.path.exists(path)", "path"), "", ""},
		"an initial checkpoint":    {`p.add_argument("--init_checkpoint", default=None)`, by("if args.init_checkpoint", "args.init_checkpoint"), "", "--init_checkpoint={path}"},
		"by default":               {`p.add_argument("--ckpt", default=None)`, "path = None if args.ckpt is None else str(args.ckpt)\n" + by("if path", "path"), "", "--ckpt={path}"},
		"imported flags":           {`p.add_argument("--ckpt", default=None)`, "from absl import flags\n" + by("if flags.FLAGS.ckpt", "flags.FLAGS.ckpt"), "", "--ckpt={path}"},
		"data":                     {`p.add_argument("--data", default=None)`, "x = torch.load(args.data)[\"x\"]", "", ""},
		"the other way round":      {`p.add_argument("--fresh", action="store_true")`, by("if not args.fresh", `"ckpt.pt"`), "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "t.py"), []byte(resumeScript(c.option, c.code, c.functions)), 0o644); err != nil {
				t.Fatal(err)
			}
			command := ReadCommand([]string{"python", "t.py"}, dir)
			m := command.Mapping(nil)
			r := command.Resumption(m)
			got := ""
			switch k, _ := m.Knob(KnobResume); r.How {
			case ResumeArgument:
				got = k.Template
			case ResumeItself:
				got = ResumeItself
			}
			if got != c.want {
				t.Errorf("%q, want %q: %+v %q", got, c.want, r, m.Notes)
			}
			runner := strings.Contains(c.code, "mmengine") // which finds its checkpoint
			if r.How == ResumeArgument && r.Restores != (!strings.HasPrefix(name, "progress in the name") && name != "in a library" && name != "its own format" && !runner) {
				t.Errorf("reads progress from the file: %t", r.Restores)
			}
			if names := strings.Join(r.Snapshots, " "); !runner && r.How == ResumeArgument && strings.Contains(got, "{path}") != (names == "") {
				t.Errorf("%s: snapshots %q; want names if and only if the argument is not a path", got, names)
			}
		})
	}
}

// TestSnapshotsOfOption: the files from which a script continues by an option without a value are those that it loads then, not the
// logs that it writes.
func TestSnapshotsOfOption(t *testing.T) {
	const load = "    c = torch.load(\"ckpt.pt\")\n    start = c[\"epoch\"]"
	for name, c := range map[string]struct{ before, branch, functions, want string }{
		"a log":             {"log = open(\"train.log\", \"a\")", "    print(\"resuming\", file=log)\n" + load, "", "ckpt.pt"},
		"its name":          {"", "    print(\"see train.log\")\n    logging.info(\"train.log\")\n" + load, "", "ckpt.pt"},
		"opened to append":  {"", "    with open(\"train.log\", mode=\"a\") as log:\n        log.write(\"resuming\")\n" + load, "", "ckpt.pt"},
		"a writer":          {"rows = csv.writer(open(\"metrics.csv\", \"a\"))", "    rows.writerow([0])\n" + load, "", "ckpt.pt"},
		"passed to a load":  {"log = open(\"train.log\", \"a\")", "    start = load_state(\"ckpt.pt\", log)", "def load_state(path, log):\n    log.write(\"train.log\")\n    return torch.load(path)[\"epoch\"]", "ckpt.pt"},
		"in its function":   {"", "    start = load_state()", "def load_state():\n    print(\"found\", \"train.log\")\n    return torch.load(\"ckpt.pt\")[\"epoch\"]", "ckpt.pt"},
		"by variables":      {"", "    folder = os.path.join(\"out\", \"run\")\n    file = \"last.pt\"\n    path = os.path.join(folder, file)\n    name = path\n    c = torch.load(name)\n    start = c[\"epoch\"]", "", "last.pt"},
		"in a loop":         {"", "    for n in (\"g.pt\", \"d.pt\"):\n        c = torch.load(n)\n        start = c[\"epoch\"]", "", "g.pt d.pt"},
		"of its own format": {"", "    model.load_state_dict(torch.load(\"model.pt\"))\n    with open(\"state.json\") as f:\n        start = json.load(f)[\"epoch\"]", "", "model.pt state.json"},
		"of text":           {"", "    model.load_state_dict(torch.load(\"model.pt\"))\n    epoch = int(open(\"epoch.txt\").read())", "", "model.pt epoch.txt"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			script := resumeScript(`p.add_argument("--resume", action="store_true")`, c.before+"\nif args.resume:\n"+c.branch, c.functions)
			if err := os.WriteFile(filepath.Join(dir, "t.py"), []byte(script), 0o644); err != nil {
				t.Fatal(err)
			}
			command := ReadCommand([]string{"python", "t.py"}, dir)
			if r := command.Resumption(command.Mapping(nil)); r.How != ResumeArgument || strings.Join(r.Snapshots, " ") != c.want {
				t.Errorf("%+v, want snapshots %s", r, c.want)
			}
		})
	}
}
