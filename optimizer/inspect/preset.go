package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// preset contains the knobs of one training tool.
type preset struct {
	name      string
	fits      func(*Command) bool
	templates map[string]string
}

// presets are tried in order; the first match that contains the knob applies.
var presets = []preset{
	{"ultralytics", func(c *Command) bool { return c.line.program == "yolo" || c.line.program == "ultralytics" }, map[string]string{
		KnobBatchSize: "batch={}", KnobWorkers: "workers={}", KnobEpochs: "epochs={}", KnobSeed: "seed={}", KnobCheckpointDir: "project={}",
		KnobResume: "resume=True model={path}"}},
	{"lightgbm", func(c *Command) bool { return c.line.program == "lightgbm" }, map[string]string{
		KnobSteps: "num_iterations={}", KnobSeed: "seed={}", KnobResume: "input_model={path}"}},
	{"xgboost", func(c *Command) bool { return c.line.program == "xgboost" }, map[string]string{
		KnobSteps: "num_round={}", KnobSeed: "seed={}", KnobCheckpointDir: "model_dir={}", KnobResume: "model_in={path}"}},
	{"hugging-face", (*Command).huggingFaceCLI, map[string]string{
		KnobBatchSize: "--per_device_train_batch_size={}", KnobWorkers: "--dataloader_num_workers={}", KnobEpochs: "--num_train_epochs={}",
		KnobSteps: "--max_steps={}", KnobSeed: "--seed={}", KnobCheckpointDir: "--output_dir={}", KnobResume: "--resume_from_checkpoint={path}"}},
	{"lightning-cli", (*Command).lightningCLI, map[string]string{
		KnobEpochs: "--trainer.max_epochs={}", KnobSteps: "--trainer.max_steps={}", KnobSeed: "--seed_everything={}",
		KnobCheckpointDir: "--trainer.default_root_dir={}", KnobResume: "--ckpt_path={path}", knobProcesses: "--trainer.devices={}"}},
}

// launcherTemplates set the number of local processes.
var launcherTemplates = map[string]string{"torchrun": "--nproc_per_node={}", "accelerate": "--num_processes={}", "deepspeed": "--num_gpus={}",
	"mpirun": "-n {}", "horovodrun": "-np {}"}

// huggingFaceCLI reports whether the command line takes the arguments of Hugging Face's TrainingArguments.
func (c *Command) huggingFaceCLI() bool {
	if c.line.program == "trl" {
		return true
	}
	if c.source == nil {
		return false
	}
	for i := range c.source.calls {
		if n := last(c.source.calls[i].full); n == "HfArgumentParser" || n == "TrlParser" {
			return c.huggingFace()
		}
	}
	return false
}

// optionNames are the common option names of a knob, most likely first.
var optionNames = map[string][]string{
	KnobBatchSize: {"per_device_train_batch_size", "train_batch_size", "batch_size", "micro_batch_size", "mini_batch_size", "minibatch_size",
		"batch_size_per_gpu", "per_gpu_train_batch_size", "train_bs", "batchsize", "batch", "bs", "bsz"},
	KnobWorkers:       {"dataloader_num_workers", "num_workers", "workers", "n_workers", "nworkers", "loader_workers", "data_workers", "num_data_workers", "j"},
	KnobResume:        {"resume_from_checkpoint", "resume_from", "resume", "resume_path", "resume_checkpoint", "resume_ckpt", "ckpt_path", "load_checkpoint", "load_ckpt", "from_checkpoint", "restore", "restore_from"},
	KnobCheckpointDir: {"output_dir", "out_dir", "checkpoint_dir", "ckpt_dir", "save_dir", "default_root_dir", "work_dir", "workdir", "outdir", "outf", "model_dir", "checkpoint_path", "output", "snapshot_path"},
	KnobSeed:          {"seed", "random_seed", "manual_seed", "manualseed", "rng_seed"},
}

// Mapping returns the knobs of the command: the user's templates (knob name → template, as returned by ParseKnob),
// then presets of known tools, then options declared by the script. For a shell script only the knobs of launchers
// are known.
func (c *Command) Mapping(own map[string]string) Mapping {
	var m Mapping
	for _, n := range knobNames {
		var k knob
		ok := false
		if t := own[n]; t != "" {
			k, ok = c.ownKnob(n, t), true
		}
		if !ok && n == knobProcesses {
			k, ok = c.launcherKnob()
		}
		if !ok && c.inner == nil && !c.line.shell {
			for _, find := range []func(string) (knob, bool){func(n string) (knob, bool) { return c.presetKnob(n, &m) }, c.dataModuleKnob,
				func(n string) (knob, bool) { return c.declaredKnob(n, &m) }, c.configKnob} {
				if k, ok = find(n); ok {
					break
				}
			}
		}
		if ok {
			c.complete(&k)
			m.Knobs = append(m.Knobs, k)
		}
	}
	return m
}

// ownKnob returns a knob from a user's template. A knob for nproc belongs to the launcher if it sets one of the
// launcher's options.
func (c *Command) ownKnob(n, template string) knob {
	k := knob{Name: n, Template: template, Source: "--knob"}
	if ls := c.line.launchers; n == knobProcesses && len(ls) > 0 {
		l := ls[len(ls)-1]
		for _, w := range k.templateWords() {
			if slices.Contains(rankOptions[l.name], w.name) {
				k.launcher = l.name
			}
		}
	}
	return k
}

func (c *Command) launcherKnob() (knob, bool) {
	if len(c.line.launchers) == 0 {
		return knob{}, false
	}
	l := c.line.launchers[len(c.line.launchers)-1]
	t := launcherTemplates[l.name]
	return knob{Name: knobProcesses, Template: t, Source: "launcher " + l.name, launcher: l.name, spellings: [][]string{rankOptions[l.name]}}, t != ""
}

// presetKnob returns the knob of the first matching preset. It appends a note when the tool ignores the resume
// argument in this command.
func (c *Command) presetKnob(n string, m *Mapping) (knob, bool) {
	for _, p := range presets {
		t := p.templates[n]
		if t == "" || !p.fits(c) {
			continue
		}
		if p.name == "hugging-face" && n == KnobResume && c.source != nil && c.source.names["resume_from_checkpoint"] == 0 {
			m.Notes = append(m.Notes, "resume: the script does not hand resume_from_checkpoint to Trainer.train, so the argument has no effect")
			return knob{}, false
		}
		if p.name == "lightning-cli" && n == KnobResume && !slices.ContainsFunc(c.words, func(w word) bool { return w.form == positional && w.value == "fit" }) {
			m.Notes = append(m.Notes, "resume: LightningCLI has --ckpt_path under its subcommand fit only")
			return knob{}, false
		}
		return knob{Name: n, Template: t, Source: "preset " + p.name}, true
	}
	return knob{}, false
}

// dataModuleKnob returns a parameter of a LightningDataModule that LightningCLI exposes as an argument.
func (c *Command) dataModuleKnob(n string) (knob, bool) {
	if c.source == nil || n != KnobBatchSize && n != KnobWorkers || !c.lightningCLI() {
		return knob{}, false
	}
	for _, d := range c.source.definitions {
		if !d.class || !mentionsName(d.bases, "LightningDataModule") {
			continue
		}
		for _, a := range c.source.assignments {
			if a.how == defaulted && a.scope == d.name && slices.Contains(optionNames[n], a.target) {
				v, _ := c.source.literal(a.value)
				return knob{Name: n, Template: "--data." + a.target + "={}", Present: v, Source: fmt.Sprintf("parameter %s of %s in line %d", a.target, d.name, a.line)}, true
			}
		}
	}
	return knob{}, false
}

// configKnob returns a setting of a hydra configuration, which the command line overrides by name=value, or that of a checkpoint in
// a file that OmegaConf merges with the command line.
func (c *Command) configKnob(n string) (knob, bool) {
	hydra := c.calls("hydra.main")
	if !hydra && (n != KnobResume || !c.mergesCommandLine()) {
		return knob{}, false
	}
	best, rank := -1, 0
	for i, e := range c.config {
		if !hydra && !(slices.Contains([]string{"", "~", "null"}, e.value) && c.loadsFrom(last(e.key))) {
			continue
		}
		if r := knobRank(n, &option{names: []string{last(e.name)}}); r >= 0 && ofTraining(n, e.name) && (best < 0 || r < rank) {
			best, rank = i, r
		}
	}
	if best < 0 {
		return knob{}, false
	}
	e := c.config[best]
	if n == KnobResume && slices.Contains([]string{"true", "false"}, strings.ToLower(e.value)) {
		return knob{}, false // a switch takes no path
	}
	k := knob{Name: n, Template: e.key + "={}", Present: e.value, Source: fmt.Sprintf("setting %s in %s line %d", e.key, e.file, e.line)}
	if n == KnobResume {
		k.Template = e.key + "={path}"
	}
	return k, true
}

// mergesCommandLine reports whether the script lets name=value on the command line override its settings: the last part that
// OmegaConf merges is from it, and no parser rejects other arguments.
func (c *Command) mergesCommandLine() bool {
	s := c.source
	if s == nil || s.names["parse_args"] > 0 {
		return false
	}
	return slices.ContainsFunc(s.calls, func(k call) bool {
		if k.full != "omegaconf.OmegaConf.merge" || len(k.args) < 2 {
			return false
		}
		t := k.args[len(k.args)-1].tokens
		return mentionsName(t, "from_cli") || len(t) == 1 && slices.ContainsFunc(s.assignments, func(a assignment) bool {
			return a.target == t[0].s && mentionsName(a.value, "from_cli")
		})
	})
}

// loadsFrom reports whether the script passes a setting to a call that loads a state.
func (c *Command) loadsFrom(setting string) bool {
	return slices.ContainsFunc(c.source.calls, func(k call) bool {
		return slices.Contains([]string{"load", "load_state", "load_checkpoint", "fit", "train"}, last(k.callee)) &&
			slices.ContainsFunc(k.args, func(a argument) bool { return mentionsName(a.tokens, setting) })
	})
}

// ofTraining reports whether a setting belongs to the training: a length must not be in another part of the
// configuration.
func ofTraining(n, name string) bool {
	return n != KnobEpochs && n != KnobSteps || unitOf(name, "") != ""
}

// declaredKnob returns the option of the script that sets the knob. The option with the best knobRank is chosen;
// toggles do not qualify, and a batch size of 0 is computed by the script. The option to resume by is that of
// resumeKnob.
func (c *Command) declaredKnob(n string, m *Mapping) (knob, bool) {
	if c.source == nil {
		return knob{}, false
	}
	if n == KnobResume && c.source.configurator() {
		if o := c.source.optionNamed("--init_from"); o != nil && c.source.mentions("resume") {
			return knob{Name: n, Template: "--init_from=resume", Source: "option --init_from in " + o.where}, true
		}
	}
	if n == KnobResume {
		return c.resuming().resumeKnob(m)
	}
	var best *option
	rank := -1
	for i := range c.source.options {
		o := &c.source.options[i]
		if len(o.flags) == 0 || o.toggle {
			continue
		}
		if v, ok := c.source.literal(o.value); ok && v == "0" && n == KnobBatchSize {
			continue // computed by the script
		}
		if r := knobRank(n, o); r >= 0 && (best == nil || r < rank) {
			best, rank = o, r
		}
	}
	if best == nil {
		return knob{}, false
	}
	flag := best.flag()
	k := knob{Name: n, Template: flag + "={}", Source: fmt.Sprintf("option %s in %s", flag, best.where)}
	if !strings.HasPrefix(flag, "--") {
		k.Template = flag + " {}"
	}
	return k, true
}

// knobRank returns the rank of an option's names for a knob, 0 for the best; -1 without a match.
func knobRank(n string, o *option) int {
	best := -1
	for _, own := range o.names {
		own = strings.ToLower(own)
		r := slices.Index(optionNames[n], own)
		switch unit := unitOf(own, o.help); {
		case n == KnobEpochs && unit == unitEpoch, n == KnobSteps && unit == unitStep && !looseStepNames[own]:
			r = 0
		case n == KnobSteps && unit == unitStep:
			r = 1
		}
		if r >= 0 && (best < 0 || r < best) {
			best = r
		}
	}
	return best
}

// complete sets the other spellings of a knob's arguments and its present value. Spellings include abbreviations on
// the command line; the last occurrence is the present value, then a configuration file, then the default.
func (c *Command) complete(k *knob) {
	if c.source != nil {
		k.toggles, k.hydra = c.source.toggles(), c.calls("hydra.main")
	}
	words, fallback := c.words, k.Present
	k.Present = ""
	if k.launcher != "" {
		for _, l := range c.line.launchers {
			if l.name == k.launcher {
				words = l.words(c.Argv)
			}
		}
	}
	for i, t := range k.templateWords() {
		if i >= len(k.spellings) {
			k.spellings = append(k.spellings, nil)
		}
		if c.source != nil && k.launcher == "" {
			if o := c.source.optionNamed(t.key); o != nil {
				for _, f := range o.flags {
					k.spellings[i] = append(k.spellings[i], canonical(f))
				}
				for _, w := range words { // abbreviations
					if w.form != positional && c.source.optionNamed(w.key) == o {
						k.spellings[i] = append(k.spellings[i], w.name)
					}
				}
				if v, ok := c.source.literal(o.value); ok && v != "None" {
					fallback = v
				}
			}
		}
		if placeholder(t.value) == "" && t.form != bare {
			continue
		}
		for _, w := range slices.Backward(words) {
			if w.form != positional && (w.name == t.name || slices.Contains(k.spellings[i], w.name)) {
				k.Present = w.value
				if w.form == bare {
					k.Present = "set"
				}
				break
			}
		}
	}
	if k.Present == "" {
		k.Present = cmp.Or(c.configValue(k.templateWords()), fallback)
	}
}

// configValue returns the value of a template's argument in a configuration file.
func (c *Command) configValue(words []word) string {
	for _, e := range c.config {
		if len(words) > 0 && e.name == words[0].name {
			return e.value
		}
	}
	return ""
}
