package inspect

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash/fnv"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// sketchSize is the number of minima in a likeness; the similarity of two scripts has a standard error of at most
// 0.07.
const sketchSize = 48

// likenessForm is the version prefix of a likeness. Other versions are not compared.
const likenessForm = "1:"

// likeness returns a summary of a script's text for comparison with later versions: a hash of its code without
// comments, docstrings, printed texts and settings that do not change the amount of work (a learning rate, a seed, an
// output path), and a MinHash sketch of its statements (Broder, On the resemblance and containment of documents,
// 1997).
func (s *script) likeness() string {
	if len(s.statements) == 0 {
		return ""
	}
	whole := sha256.New()
	var minima [sketchSize]uint64
	for i := range minima {
		minima[i] = math.MaxUint64
	}
	for i := range s.statements {
		text := s.statements[i].workText()
		if text == "" {
			continue
		}
		whole.Write([]byte(text + "\n"))
		h := fnv.New64a()
		h.Write([]byte(text))
		x := h.Sum64()
		for k := range minima {
			x ^= x >> 33 // finaliser of splitmix64, iterated for each hash
			x *= 0xff51afd7ed558ccd
			x ^= x >> 29
			x += 0x9e3779b97f4a7c15
			minima[k] = min(minima[k], x)
		}
	}
	sketch := make([]byte, 0, 2*sketchSize)
	for _, m := range minima {
		x := m * 0xc4ceb9fe1a85ec53 // the upper bits of a minimum are almost always 0
		sketch = append(sketch, byte(x>>56), byte(x>>48))
	}
	return likenessForm + hex.EncodeToString(whole.Sum(nil)[:12]) + ":" + base64.RawStdEncoding.EncodeToString(sketch)
}

// digest returns a hash of the files other than its script that determine the work of a command: the local modules that the script
// imports, the script that a shell script runs, and the configuration files. Like a likeness, it does not depend on comments
// and on settings that do not change the amount of work. It is "" without such files.
func (c *Command) digest() string {
	var code, settings []string
	for at := c; at != nil; at = at.inner {
		if s := at.resuming(); s != nil {
			for i := range s.statements {
				if st := &s.statements[i]; at != c || s.elsewhere(st.line) {
					code = append(code, st.workText())
				}
			}
			code = append(code, at.source.omitted...)
		}
		for _, e := range at.config {
			if effectOf(strings.TrimSuffix(e.name, listSuffix)) != noEffect && !at.source.writes(e.file) {
				settings = append(settings, e.name+" = "+e.value)
			}
		}
	}
	slices.Sort(settings) // those of several files are in no order
	all := slices.DeleteFunc(append(code, settings...), func(text string) bool { return text == "" })
	if len(all) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(strings.Join(all, "\n")))
	return hex.EncodeToString(sum[:])
}

// workText returns the parts of a statement that may change the amount of work, after its indentation, which distinguishes
// statements inside loops; "" without any.
func (st *statement) workText() string {
	text := workText(st.tokens)
	if text == "" {
		return ""
	}
	return itoa(st.indent) + " " + text
}

// workText returns the parts of a statement that may change the amount of work; "" for a docstring or a print.
func workText(t []token) string {
	if len(t) == 0 || (t[0].kind == text || t[0].kind == fstring) && len(t) == 1 {
		return ""
	}
	if t[0].kind == name && t[0].s == "print" && len(t) > 1 && t[1].s == "(" {
		return ""
	}
	var b strings.Builder
	option := harmlessOption(t)
	for i := 0; i < len(t); i++ {
		if n := harmlessSetting(t[i:]); n > 0 {
			i += n - 1
			continue
		}
		if option && (t[i].kind == number || t[i].kind == text && i > 0 && (t[i-1].s == "=" || t[i-1].kind == text)) {
			continue // its default and its help
		}
		b.WriteString(t[i].s)
		b.WriteByte(' ')
	}
	return b.String()
}

// harmlessSetting returns the number of tokens of a leading name = literal whose name does not affect the work,
// otherwise 0.
func harmlessSetting(t []token) int {
	if len(t) < 3 || t[0].kind != name || t[1].s != "=" || !harmlessNames[strings.ToLower(t[0].s)] {
		return 0
	}
	n := 2
	if t[n].s == "-" && len(t) > 3 {
		n++
	}
	if k := t[n]; k.kind != number && k.kind != text && k.s != "True" && k.s != "False" && k.s != "None" {
		return 0
	}
	if n+1 < len(t) && t[n+1].s != "," && t[n+1].s != ")" {
		return 0
	}
	return n + 1
}

// harmlessOption reports whether a statement declares an option that does not affect the work.
func harmlessOption(t []token) bool {
	for i := 0; i+2 < len(t) && i < 6; i++ {
		if t[i].kind == name && (t[i].s == "add_argument" || t[i].s == "option") && t[i+1].s == "(" && t[i+2].kind == text {
			return harmlessNames[canonical(t[i+2].s)]
		}
	}
	return false
}

// CompareLikeness compares two scripts by Inspection.Likeness. equal reports that they do the same work: they differ
// at most in comments and in settings such as a learning rate. similarity is the estimated share of equal statements,
// 0…1. ok is false when a likeness is unknown or of another version.
func CompareLikeness(a, b string) (equal bool, similarity float64, ok bool) {
	hashA, sketchA, okA := splitLikeness(a)
	hashB, sketchB, okB := splitLikeness(b)
	if !okA || !okB {
		return false, 0, false
	}
	if hashA == hashB {
		return true, 1, true
	}
	same := 0
	for i := 0; i < len(sketchA); i += 2 {
		if sketchA[i] == sketchB[i] && sketchA[i+1] == sketchB[i+1] {
			same++
		}
	}
	return false, float64(same) / sketchSize, true
}

func splitLikeness(s string) (hash string, sketch []byte, ok bool) {
	rest, ok := strings.CutPrefix(s, likenessForm)
	if !ok {
		return "", nil, false
	}
	hash, text, _ := strings.Cut(rest, ":")
	sketch, err := base64.RawStdEncoding.DecodeString(text)
	return hash, sketch, err == nil && len(sketch) == 2*sketchSize
}

// harmlessNames are settings, in canonical form, that change neither the number of units nor the work per unit.
var harmlessNames = set("lr", "learning_rate", "base_lr", "max_lr", "min_lr", "init_lr", "lr0", "lrf", "eta", "eta_min", "weight_decay", "wd", "momentum",
	"beta1", "beta2", "betas", "adam_beta1", "adam_beta2", "adam_epsilon", "eps", "epsilon", "gamma", "lr_gamma", "lr_step", "lr_step_size",
	"lr_scheduler_type", "warmup", "warmup_steps", "warmup_ratio", "warmup_iters", "warmup_epochs", "lr_decay_iters", "lr_decay", "decay_lr",
	"label_smoothing", "clip", "grad_clip", "max_grad_norm", "clip_grad", "gradient_clip_val", "alpha", "temperature", "ent_coef", "vf_coef", "clip_coef",
	"gae_lambda", "seed", "random_seed", "random_state", "manual_seed", "manualseed", "seed_everything", "output_dir", "out_dir", "outdir", "outf", "save_dir",
	"save", "save_path", "log_dir", "logdir", "logging_dir", "tensorboard_log", "run_name", "exp_name", "experiment", "experiment_name", "name", "comment", "note",
	"notes", "tag", "tags", "project", "project_name", "wandb_project", "wandb_run_name", "wandb_entity", "wandb_project_name", "wandb_name",
	"default_root_dir", "work_dir", "workdir", "checkpoint_dir", "ckpt_dir", "checkpoint_path", "snapshot_path", "output", "log_interval", "logging_steps",
	"print_freq", "log_every", "log_every_n_steps", "logging_first_step", "disable_tqdm", "verbose", "quiet", "report_to", "master_port", "rdzv_endpoint",
	"rdzv_id", "rdzv_backend", "main_process_port", "log_level")

// settingsOf matches settings in parts of a configuration where they have their plain meaning: optimizer.lr, but not
// model.name.
var settingsOf = regexp.MustCompile(`^((optim\w*|\w*sched\w*|lr\w*|logg\w*|wandb|train\w*|solver|run|exp\w*|args|hparams|hydra|model|algo)\.)+(\w*lr\w*|learning_rate|weight_decay|momentum|betas?|eps|gamma|warmup\w*|seed|\w*dir|project|log_\w+)$`)

// effect is the consequence of another value of an argument.
type effect int

const (
	noEffect   effect = iota // neither the number of units nor the work per unit
	LengthOnly               // the number of units, not the work per unit
	WorkEffect               // possibly the work per unit
)

// difference is an argument with different values in two command lines.
type difference struct {
	Name    string // canonical; "argument 2" for a positional one
	Was, Is string // "" when missing or without a value
	Effect  effect
	// Distance is the approximate distance of the values: the absolute binary logarithm of their ratio, at most 3; 1
	// for other values than positive numbers; 0 without a WorkEffect.
	Distance float64
}

// Ratio returns the new value divided by the old one; ok is false unless both are positive numbers.
func (d difference) Ratio() (ratio float64, ok bool) {
	was, okWas := amount(d.Was)
	is, okIs := amount(d.Is)
	return is / was, okWas && okIs
}

// SetsBatchSize reports whether the argument is the number of samples per step.
func (d difference) SetsBatchSize() bool {
	return slices.Contains(optionNames[KnobBatchSize], last(d.Name))
}

// Compare returns the arguments that differ between two command lines. comparable is false for those of different programs:
// another interpreter (apart from its path), module, installed command or launcher. The contents of scripts are not compared.
func Compare(was, is []string) (differ []difference, comparable bool) {
	a, b := readLine(was), readLine(is)
	comparable = len(was) > 0 && len(is) > 0 && filepath.Base(was[0]) == filepath.Base(is[0]) && a.module == b.module && a.program == b.program && a.code == b.code &&
		a.shell == b.shell && filepath.Base(a.script) == filepath.Base(b.script) &&
		slices.EqualFunc(a.launchers, b.launchers, func(x, y launcher) bool { return x.name == y.name })
	if comparable {
		for i := range a.launchers {
			differ = append(differ, compareWords(a.launchers[i].words(was), b.launchers[i].words(is))...)
		}
	}
	return append(differ, compareWords(readWords(was, a.args, len(was), nil), readWords(is, b.args, len(is), nil))...), comparable
}

// compareWords compares the last value of each option, and positional arguments by position. The result is in the
// order of first occurrence.
func compareWords(was, is []word) []difference {
	type value struct {
		text  string
		given bool
	}
	both := map[string]*[2]value{}
	var order []string
	for side, words := range [][]word{was, is} {
		place := 0
		for _, w := range words {
			n, v := w.name, w.value
			if w.form == positional {
				place++
				n = "argument " + itoa(place)
			}
			if w.form == bare {
				v = ""
			}
			if both[n] == nil {
				both[n] = &[2]value{}
				order = append(order, n)
			}
			both[n][side] = value{v, true}
		}
	}
	var out []difference
	for _, n := range order {
		if v := both[n]; v[0] != v[1] {
			d := difference{Name: n, Was: v[0].text, Is: v[1].text, Effect: effectOf(n)}
			if d.Effect == WorkEffect {
				d.Distance = apart(d.Was, d.Is)
			}
			out = append(out, d)
		}
	}
	return out
}

// effectOf classifies an argument by its canonical name; an unknown one may change the work.
func effectOf(n string) effect {
	end := last(n)
	switch {
	case harmlessNames[n] || harmlessNames[end] && settingsOf.MatchString(n):
		return noEffect
	case unitOf(n, "") != "", end == "epoch":
		return LengthOnly
	}
	if slices.Contains(optionNames[KnobResume], end) {
		return LengthOnly
	}
	return WorkEffect
}

func apart(was, is string) float64 {
	a, okA := amount(was)
	b, okB := amount(is)
	if !okA || !okB {
		return 1
	}
	return min(3, math.Abs(math.Log2(b/a)))
}

// EntryPoint returns the program of a command line without a script: "module pkg.train" or "program yolo"; "" for a
// script file. anywhere is false for a program that is not known to train by its arguments alone (make, a compiled one):
// the files of its working directory determine what it does.
func EntryPoint(argv []string) (entry string, anywhere bool) {
	switch l := readLine(argv); {
	case l.module != "":
		return "module " + l.module, true
	case l.program != "":
		return "program " + l.program, programs[l.program]
	}
	return "", false
}
