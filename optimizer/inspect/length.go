package inspect

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// confidence is the kind of source of a job's length, most certain first.
type confidence string

const (
	Stated         confidence = "stated"   // on the command line, or in a configuration file named there
	lengthDeclared confidence = "declared" // the default of an option of the script
	lengthInferred confidence = "inferred" // a constant, a call or a loop in the script
	lengthAssumed  confidence = "assumed"  // the framework's default
)

// length is the amount of work of a job by one source. It is an upper bound, since early stopping may end the job
// before.
type length struct {
	Units float64 // above 0
	Unit  string  // "epoch" or "step"
	// Name is the setting of the length, in canonical form: "num_train_epochs", "total_timesteps"; "" for a loop.
	Name       string
	Source     string // for display: "--max_iters=300 on the command line", "default of --epochs in line 12"
	Confidence confidence
}

// Units of a Length.
const (
	unitEpoch = "epoch"
	unitStep  = "step"
)

// stepNames are the settings of a training's length in steps, iterations, rounds or environment steps.
var stepNames = set("max_steps", "max_step", "max_iters", "max_iter", "max_iterations", "n_iters", "n_iter", "num_iters", "num_iter", "num_iterations",
	"niters", "iterations", "iters", "total_steps", "total_iters", "total_iterations", "total_timesteps", "train_steps", "training_steps",
	"num_train_steps", "num_training_steps", "max_train_steps", "max_training_steps", "max_update", "max_updates", "num_updates",
	"total_updates", "train_iters", "num_round", "num_rounds", "num_boost_round", "num_boost_rounds", "nrounds", "n_timesteps",
	"max_timesteps", "total_env_steps", "max_train_iters", "niter", "total_step", "training_iters", "num_train_iters", "num_training_iters")

// maxDuration is the setting of a length in Composer: 12ep, 500ba. In other programs it has other units.
const maxDuration = "max_duration"

// looseStepNames often have another meaning, such as the length of a rollout.
var looseStepNames = set("steps", "num_steps")

// otherPart matches other parts of a configuration, whose settings are excluded: scheduler.max_iters, eval.max_steps.
var otherPart = regexp.MustCompile(`(?i)(sched|lr|optim|eval|val|test|warmup|infer|sampl|env|gen)`)

// ofOnePart matches the help text of a number of steps that is the length of an epoch or an episode, not of the job.
var ofOnePart = regexp.MustCompile(`(?i)\b((per|in an|in each|in one|of an|of each|every|each) epoch|(per|for|of|in|each|every) ((an?|one|each|the) )?(episode|rollout|trajectory))\b`)

// unitOf returns the unit of the length given by a setting with this canonical name; "" for another setting.
func unitOf(name, help string) string {
	parts := strings.Split(name, ".")
	end := parts[len(parts)-1]
	if slices.ContainsFunc(parts[:len(parts)-1], otherPart.MatchString) {
		return ""
	}
	switch {
	case epochName.MatchString(end) || end == maxDuration:
		return unitEpoch
	case stepNames[end] || looseStepNames[end]:
		if ofOnePart.MatchString(help) {
			return ""
		}
		if strings.Contains(strings.ToLower(help), "epoch") && !strings.Contains(strings.ToLower(help), "step") {
			return unitEpoch // --niter of dcgan
		}
		return unitStep
	}
	return ""
}

// lengthClue is one setting of the length in one source.
type lengthClue struct {
	name, unit, value, source string
	refers                    string   // the referenced name, in canonical form; "" for a literal
	terms                     []string // of a loop: the referenced names whose sum it counts to
	more                      float64  // of a loop: how much more than that
	confidence                confidence
	weight                    float64 // orders clues with Inferred confidence: calls and constants before defaults of parameters
}

// Lengths returns the length of the job, most certain source first, with at most one per unit. If both units are
// limited, the first one ends the job: in Hugging Face trainings max_steps overrides epochs. Where the user limits one
// unit, the default of the other is none. Values of 0, -1 and None set no limit. Nil means unknown.
func (c *Command) Lengths() []length {
	if c.Repeats() || c.Nested() {
		return nil
	}
	if c.inner != nil {
		return c.inner.Lengths()
	}
	all := c.lengthsStated()
	if c.source != nil {
		all = append(all, c.source.lengths()...)
	}
	for i := range all { // of a loop over an option with another name: --epoch 16
		for _, w := range c.words {
			if f := &all[i]; f.name == "" && f.refers != "" && w.name == f.refers && c.source.optionNamed(w.key) != nil {
				f.value, f.confidence, f.source = plus(w.value, f.more), Stated, fmt.Sprintf("%s %s on the command line", w.key, w.value)
			}
		}
	}
	loops := all
	if c.whole != nil {
		loops = append(slices.Clone(all), c.whole.loopLengths()...)
	}
	applyLoops(all, loops)
	c.applyUnits(all)
	if d, ok := c.lengthAssumed(); ok {
		all = append(all, d)
	}
	ofEpoch := slices.ContainsFunc(all, func(f lengthClue) bool { _, ok := amount(f.value); return ok && f.unit == unitEpoch && f.name != "" })
	if c.obscure() || c.evaluates() {
		all = slices.DeleteFunc(all, func(f lengthClue) bool { return f.confidence != Stated })
	}
	var out []length
	settled := map[string]bool{} // the last part of a name, or a unit
	for _, f := range all {
		end := last(f.name)
		if ofEpoch && looseStepNames[end] { // the options --epochs and --steps: steps of an epoch
			continue
		}
		if end != "" && settled[end] || f.refers != "" && settled[f.refers] || f.confidence != Stated && settled["by the user"] {
			continue
		}
		if end == maxDuration {
			var epochs bool
			if f.value, epochs = strings.CutSuffix(f.value, "ep"); !epochs {
				continue
			}
		}
		settled[end] = end != ""
		units, ok := amount(f.value)
		if !ok || settled["unit "+f.unit] {
			continue
		}
		settled["unit "+f.unit] = true
		settled["by the user"] = settled["by the user"] || f.confidence == Stated && !looseStepNames[end]
		out = append(out, length{units, f.unit, end, f.source, f.confidence})
	}
	if len(out) == 2 && out[1].Name == "max_steps" && c.huggingFace() {
		out[0], out[1] = out[1], out[0]
	}
	return out
}

// applyLoops gives a setting to which a loop counts the length of the loop: --n_epochs of a script that trains for
// n_epochs + n_epochs_decay, or --epochs of one with range(1, epochs). Loops of different length over one setting leave it.
func applyLoops(all, clues []lengthClue) {
	loops := map[string]lengthClue{}
	for _, f := range clues {
		for _, n := range f.terms {
			if before, again := loops[n]; again && (len(before.terms) != len(f.terms) || before.more != f.more) {
				f = lengthClue{}
			}
			loops[n] = f
		}
	}
	for i := range all {
		f := &all[i]
		switch l := loops[last(f.name)]; {
		case l.unit != f.unit:
		case len(l.terms) > 1:
			f.value, f.source = l.value, l.source
		default:
			f.value = plus(f.value, l.more)
		}
	}
}

// plus adds to a number of units; it returns other text, and numbers that set no limit, unchanged.
func plus(units string, more float64) string {
	if v, ok := amount(units); ok && more != 0 {
		return fmt.Sprint(v + more)
	}
	return units
}

// applyUnits gives settings the unit that an option states, such as --iter_unit=epoch for num_iter. One that a loop compares
// with a product counts samples, and a variable called like an option for the length of an episode is no length.
func (c *Command) applyUnits(all []lengthClue) {
	units := map[string]string{} // of the settings whose name contains the key → the option's value
	unitOption := func(name, value string) {
		if of, ok := strings.CutSuffix(canonical(name), "unit"); ok {
			units[strings.Trim(of, "_")] = value
		}
	}
	products, parts := map[string]bool{}, map[string]bool{}
	if c.source != nil {
		products = c.source.products()
		for _, o := range c.source.options {
			if v, ok := c.source.literal(o.value); ok && len(o.names) > 0 {
				unitOption(o.names[0], v)
			}
			for _, n := range o.names {
				parts[canonical(n)] = ofOnePart.MatchString(o.help)
			}
		}
	}
	for _, w := range c.words {
		unitOption(w.name, w.value)
	}
	for i := range all {
		f := &all[i]
		for of, v := range units {
			switch counted := strings.ToLower(v); {
			case f.unit != unitStep || f.name == "" || !strings.Contains(last(f.name), of):
			case strings.Contains(counted, "epoch"):
				f.unit = unitEpoch
			case v == unknown:
				f.value = ""
			}
		}
		if f.unit == unitStep && (products[last(f.name)] || parts[last(f.name)]) { // max_step = args.max_step
			f.value = ""
		}
	}
}

// products returns the names, in canonical form, that the condition of a loop compares with a product:
// while step * batch_size < training_iters.
func (s *script) products() map[string]bool {
	out := map[string]bool{}
	for i := range s.statements {
		t := s.statements[i].tokens
		if t[0].s != "while" || len(t) > maxExpression {
			continue
		}
		at := slices.IndexFunc(t, func(one token) bool {
			return one.kind == operator && slices.Contains([]string{"<", "<=", ">", ">="}, one.s)
		})
		if at < 0 {
			continue
		}
		left, right := t[1:at], t[at+1:]
		if n := len(right); n > 0 && right[n-1].s == ":" {
			right = right[:n-1]
		}
		for _, sides := range [][2][]token{{left, right}, {right, left}} {
			if n := referred(sides[1]); n != "" && len(splitAt(sides[0], "*")) > 1 {
				out[n] = true
			}
		}
	}
	return out
}

// obscure reports whether a shell script gives the command arguments that it does not show, which may set the length.
func (c *Command) obscure() bool {
	return slices.ContainsFunc(c.words, func(w word) bool { return w.form == positional && w.value == unknown })
}

// modeName matches the options that choose between training and evaluation.
var modeName = regexp.MustCompile(`^((exec|run)_)?mode$`)

// evaluates reports whether the command line chooses an evaluation, to which the defaults of a training do not apply.
func (c *Command) evaluates() bool {
	return slices.ContainsFunc(c.words, func(w word) bool {
		return modeName.MatchString(w.name) && evalWord.MatchString(w.value) && !trainName.MatchString(w.value)
	})
}

// OfEnvironment reports whether a length counts steps of a simulated environment in a script with its own training
// loop, where one optimizer step takes many of them.
func (c *Command) OfEnvironment(l length) bool {
	if c.inner != nil {
		return c.inner.OfEnvironment(l)
	}
	imports := func(module string) bool {
		return c.source != nil && slices.ContainsFunc(c.source.imports, func(m imported) bool { return strings.HasPrefix(m.path, module) })
	}
	named := strings.Contains(l.Name, "timestep") || strings.Contains(l.Name, "env_step")
	return l.Unit == unitStep && (named || imports("gym")) && !imports("stable_baselines3") // gym, gymnasium
}

// lengthsStated returns the settings on the command line, the last of a name first, then those of configuration
// files.
func (c *Command) lengthsStated() []lengthClue {
	var out []lengthClue
	words := append(slices.Clone(c.words), c.overrides()...)
	slices.SortStableFunc(words, func(a, b word) int { return cmp.Compare(a.at+a.width, b.at+b.width) })
	for _, w := range slices.Backward(words) {
		n, help := c.optionOf(w)
		unit := unitOf(n, help)
		if unit == "" {
			continue
		}
		source := fmt.Sprintf("%s on the command line", strings.Join(c.Argv[w.at:w.at+w.width], " "))
		if w.form == positional {
			source = fmt.Sprintf("%s %s on the command line", n, w.value)
		}
		out = append(out, lengthClue{name: n, unit: unit, value: w.value, source: source, confidence: Stated})
	}
	agents := c.agentConfigs()
	for _, s := range c.config {
		if unit := unitOf(s.name, ""); unit != "" && !agents[s.file] && root(s.name) != agentSection {
			out = append(out, lengthClue{name: s.name, unit: unit, value: s.value, confidence: Stated,
				source: fmt.Sprintf("%s = %s in %s line %d", s.name, s.value, s.file, s.line)})
		}
	}
	return out
}

// agentSection is the section of a configuration of Unity ML-Agents for the kinds of agents. Its lengths are in steps of the
// agents and in passes over one buffer.
const agentSection = "behaviors"

// agentConfigs returns the configuration files with a trainer of ML-Agents, which may state such lengths as defaults too.
func (c *Command) agentConfigs() map[string]bool {
	files := map[string]bool{}
	for _, s := range c.config {
		if (root(s.name) == agentSection || root(s.name) == "default_settings") && last(s.name) == "trainer_type" {
			files[s.file] = true
		}
	}
	return files
}

// overriding are the options whose values are settings of the configuration.
var overriding = set("opts", "options", "set", "cfg_options", "override", "overrides")

// sectioned matches a setting of yacs: SOLVER.MAX_ITER.
var sectioned = regexp.MustCompile(`^[A-Z][A-Z0-9_]*(\.[A-Z][A-Z0-9_]*)+$`)

// overrides returns the settings of the configuration among the arguments: KEY VALUE, as positional arguments or after an
// option such as --opts, and key=value after one. A key is a setting of a configuration file, one of yacs, or any if the script
// hands the remaining arguments on.
func (c *Command) overrides() []word {
	var out []word
	rest := c.source != nil && slices.ContainsFunc(c.source.options, func(o option) bool { return o.rest && len(o.flags) == 0 })
	for i := 0; i < len(c.words); i++ {
		w := c.words[i]
		own := overriding[w.name] && (w.form == separate || w.form == joined)
		if !own && w.form != positional {
			continue
		}
		if k, v, ok := strings.Cut(w.value, "="); ok && own {
			out = append(out, word{at: w.at, width: w.width, key: k, name: canonical(k), value: v, form: pair})
			continue
		}
		n := canonical(w.value)
		known := sectioned.MatchString(w.value) || rest || slices.ContainsFunc(c.config, func(e configEntry) bool { return e.name == n })
		if i+1 < len(c.words) && c.words[i+1].form == positional && known && unitOf(n, "") != "" {
			i++
			out = append(out, word{at: w.at, width: w.width + 1, key: w.value, name: n, value: c.words[i].value, form: pair})
		}
	}
	return out
}

// lengths returns the settings in the script, most certain source first.
func (s *script) lengths() []lengthClue { return append(s.lengthsDeclared(), s.lengthsInferred()...) }

// lengthsDeclared returns the defaults of the script's options.
func (s *script) lengthsDeclared() []lengthClue {
	var out []lengthClue
	for _, o := range s.options {
		for _, n := range o.names {
			unit := unitOf(strings.ToLower(n), o.help)
			if unit == "" || looseStepNames[n] && (s.names["total_timesteps"] > 0 || s.names["num_envs"] > 0) {
				continue
			}
			v, ok := s.literal(o.value)
			if !ok {
				break
			}
			shown := n
			if len(o.flags) > 0 {
				shown = o.flags[0]
				for _, f := range o.flags {
					if strings.HasPrefix(f, "--") {
						shown = f
					}
				}
			}
			out = append(out, lengthClue{name: strings.ToLower(n), unit: unit, value: v, confidence: lengthDeclared, source: fmt.Sprintf("default of %s in %s", shown, o.where)})
			break
		}
	}
	return out
}

// trainers matches the calls whose keywords set the length of a training.
var trainers = regexp.MustCompile(`(^|\.)(\w*Trainer|\w*TrainingArguments|\w+Config|fit|fit_generator|train|learn|cv|Namespace)$`)

// notTrainers matches the calls whose epochs and steps are not those of the training.
var notTrainers = regexp.MustCompile(`(?i)(sched|lr|anneal|cycl|optim|decay|eval|val|test|warmup|infer|sampl|env|gener|plot|print|log|callback|stop|ckpt|checkpoint|save|load|distill|pretrain)`)

// boosters matches the calls of gradient boosting whose n_estimators is the number of rounds.
var boosters = regexp.MustCompile(`(^|\.)(XGB\w+|LGBM\w+|CatBoost\w*)$`)

// roundsThird matches the calls whose third argument is the number of rounds.
var roundsThird = regexp.MustCompile(`^(xgboost|lightgbm)\.(train|cv)$`)

// lengthsInferred returns constants, keywords of training calls and loops, by descending weight.
func (s *script) lengthsInferred() []lengthClue {
	var out []lengthClue
	for i := range s.calls {
		out = append(out, s.callLengths(&s.calls[i])...)
	}
	for i := range s.assignments {
		a := &s.assignments[i]
		n := strings.ToLower(last(a.target))
		if k := subscript(a.target); k != "" {
			n = strings.ToLower(k)
		}
		unit := unitOf(n, "")
		if unit == "" || looseStepNames[n] || evalWord.MatchString(a.scope) || s.conditional(a.line) {
			continue
		}
		weight := map[how]float64{assigned: byAssign, entry: byEntry, defaulted: byDefault}[a.how]
		if v, ok := s.literal(a.value); ok {
			out = append(out, lengthClue{name: n, refers: referred(a.value), unit: unit, value: v, confidence: lengthInferred, weight: weight,
				source: fmt.Sprintf("%s = %s in line %d", last(a.target), v, a.line)})
		}
	}
	out = append(out, s.loopLengths()...)
	slices.SortStableFunc(out, func(a, b lengthClue) int { return cmp.Compare(b.weight, a.weight) })
	return out
}

// callLengths returns the keywords of a call that set the length of the training, and the default of the environment
// variable OPTIMIZER_EPOCHS in os.environ.get("OPTIMIZER_EPOCHS", 10).
func (s *script) callLengths(c *call) []lengthClue {
	var out []lengthClue
	if v, ok := s.literal(c.after("OPTIMIZER_EPOCHS")); ok {
		return []lengthClue{{name: "epochs", unit: unitEpoch, value: v, confidence: lengthInferred, weight: byAssign - 1,
			source: fmt.Sprintf("default of OPTIMIZER_EPOCHS in line %d", c.line)}}
	}
	training := trainers.MatchString(c.full) || boosters.MatchString(c.full)
	weight := byOption
	if !training {
		weight = byDefault - 1 // such as the max_epochs of skorch's NeuralNetClassifier, after loops and constants
	}
	if !training && notTrainers.MatchString(c.full) || s.forEvaluation(c) {
		return nil
	}
	for i, a := range c.args {
		if i == 2 && a.key == "" && roundsThird.MatchString(c.full) {
			a.key = "num_boost_round"
		}
		unit := unitOf(strings.ToLower(a.key), "")
		if !training && unit == unitStep && a.key != "max_steps" {
			continue
		}
		if boosters.MatchString(c.full) && (a.key == "n_estimators" || a.key == "iterations") {
			unit = unitStep
		}
		if v, ok := s.literal(a.tokens); ok && unit != "" {
			out = append(out, lengthClue{name: strings.ToLower(a.key), refers: referred(a.tokens), unit: unit, value: v, confidence: lengthInferred, weight: weight,
				source: fmt.Sprintf("%s(%s=%s) in line %d", last(c.callee), a.key, v, c.line)})
		}
	}
	return out
}

// loopLengths returns the loops over range(N) whose variable is an epoch or a step, except nested loops. The loop
// variable determines the unit by its name, and the stop value may be literal or a name with a literal value.
func (s *script) loopLengths() []lengthClue {
	var out []lengthClue
	for i := range s.statements {
		st := &s.statements[i]
		t := st.tokens
		unit := loopUnit(t)
		if unit == "" || st.looped || evalWord.MatchString(st.scope) {
			continue
		}
		args := rangeOf(t)
		v, terms, more, ok := s.rangeUnits(args)
		if ok || len(terms) > 0 {
			refers := ""
			if len(terms) == 1 {
				refers = terms[0]
			}
			out = append(out, lengthClue{unit: unit, value: v, refers: refers, terms: terms, more: more, confidence: lengthInferred, weight: byLoop,
				source: fmt.Sprintf("loop over %s %ss in line %d", v, unit, st.line)})
		}
	}
	return out
}

// loopUnit returns the unit that a loop counts, by the name of its variable; "" for another statement.
func loopUnit(t []token) string {
	if len(t) < 6 || t[0].s != "for" || t[1].kind != name {
		return ""
	}
	switch n := strings.Trim(strings.ToLower(t[1].s), "_"); {
	case strings.HasPrefix(n, "ep") && !strings.HasPrefix(n, "eps") && !strings.HasPrefix(n, "episode") && !strings.HasSuffix(n, "step"):
		return unitEpoch
	case slices.Contains([]string{"step", "iteration", "iter", "it", "update", "global_step"}, n):
		return unitStep
	}
	return ""
}

// rangeOf returns the arguments of the range that a loop iterates over; nil without one.
func rangeOf(t []token) []argument {
	for k := 2; k+2 < len(t); k++ {
		if (t[k].s == "range" || t[k].s == "trange") && t[k+1].s == "(" {
			return arguments(t, brackets(t), k+1)
		}
	}
	return nil
}

// rangeUnits returns the number of values in range(N), range(a, b) or range(a, b + 1), and the names among the terms of
// N or b, with how much more it is than these. A term that is also a cancels.
func (s *script) rangeUnits(args []argument) (v string, terms []string, more float64, ok bool) {
	if len(args) == 0 || len(args) > 2 {
		return "", nil, 0, false
	}
	stop, extra := plusOne(args[len(args)-1].tokens)
	parts := splitAt(stop, "+")
	certain := true
	if path, n := dotted(stop, 0); n == len(stop) { // total = n_epochs + n_epochs_decay
		sum, one := plusOne(s.value(path))
		if in := splitAt(sum, "+"); len(in) > 1 && len(sum) <= maxExpression {
			parts, extra, certain = in, extra+one, len(s.certainValue(path)) > 0
		}
	}
	from := args[0].tokens[:0]
	if len(args) == 2 {
		from = args[0].tokens
		if i := slices.IndexFunc(parts, func(part []token) bool { return sameTokens(part, from) }); i >= 0 && len(parts) > 1 {
			parts, from = slices.Delete(parts, i, i+1), nil
		}
	}
	for _, part := range parts {
		if n := referred(part); n != "" {
			terms = append(terms, n)
		}
	}
	if first, ok := s.literal(from); ok && !s.augmented(from) {
		a, _ := amount(first)
		more = extra - a
	} else if len(from) == 0 {
		more = extra
	}
	units := more
	for _, part := range parts {
		v, ok := s.literal(part)
		if given, is := s.stated[referred(part)]; is && len(parts) > 1 {
			v, ok = given, true
		}
		n, good := amount(v)
		if !ok || !good && (v != "0" || len(parts) == 1) {
			return "", terms, more, false
		}
		units += n
	}
	if units <= 0 || !certain {
		return "", terms, more, false
	}
	return fmt.Sprint(units), terms, more, true
}

// augmented reports whether an expression is a variable that is changed in place in the scope of its assignment:
// first_iter += 1.
func (s *script) augmented(t []token) bool {
	path, n := dotted(t, 0)
	at, ok := s.certain[path]
	return ok && n == len(t) && slices.ContainsFunc(s.statements, func(st statement) bool {
		target, k := dotted(st.tokens, 0)
		return target == path && st.scope == s.assignments[at].scope && k < len(st.tokens) && strings.HasSuffix(st.tokens[k].s, "=") && len(st.tokens[k].s) > 1
	})
}

// sameTokens reports whether two expressions are written alike.
func sameTokens(a, b []token) bool {
	return slices.EqualFunc(a, b, func(x, y token) bool { return x.s == y.s && x.kind == y.kind })
}

// plusOne removes a trailing + 1 from an expression.
func plusOne(t []token) (rest []token, extra float64) {
	if n := len(t); n > 2 && t[n-2].s == "+" && t[n-1].s == "1" {
		return t[:n-2], 1
	}
	return t, 0
}

// referred returns the canonical last part of an expression that is a dotted name: "epochs" of args.epochs; otherwise
// "".
func referred(t []token) string {
	if path, n := dotted(t, 0); n == len(t) {
		return canonical(last(path))
	}
	return ""
}

// conditional reports whether the statement of a line runs in some cases only.
func (s *script) conditional(line int) bool {
	at := s.statementAt(line)
	return at >= 0 && s.statements[at].branched
}

// statementAt returns the index of the last statement that begins in a line or before it; -1 without one.
func (s *script) statementAt(line int) int {
	after, _ := slices.BinarySearchFunc(s.statements, line+1, func(st statement, line int) int { return cmp.Compare(st.line, line) })
	return after - 1
}

// lengthAssumed returns the framework's default length, unless the script sets the length to a value that is not known here.
func (c *Command) lengthAssumed() (lengthClue, bool) {
	f := lengthClue{unit: unitEpoch, confidence: lengthAssumed}
	switch {
	case c.line.program == "yolo" || c.line.program == "ultralytics":
		f.name, f.value = "epochs", "100"
	case c.huggingFace():
		f.name, f.value = "num_train_epochs", "3"
	case c.calls("xgboost.train"):
		f.name, f.value, f.unit = "num_boost_round", "10", unitStep
	case c.calls("lightgbm.train"):
		f.name, f.value, f.unit = "num_boost_round", "100", unitStep
	default:
		return f, false
	}
	if c.source != nil && slices.ContainsFunc(c.source.calls, func(made call) bool {
		return slices.ContainsFunc(made.args, func(a argument) bool { return a.key == f.name }) ||
			len(made.args) > 2 && made.args[2].key == "" && roundsThird.MatchString(made.full)
	}) {
		return f, false
	}
	f.source = fmt.Sprintf("default %s = %s of the framework", f.name, f.value)
	return f, true
}

// calls reports whether the script calls a function by its full name.
func (c *Command) calls(full string) bool {
	return c.source != nil && slices.ContainsFunc(c.source.calls, func(k call) bool { return k.full == full })
}

// huggingFace reports whether the training uses the Trainer of transformers or TRL.
func (c *Command) huggingFace() bool {
	if c.line.program == "trl" {
		return true
	}
	if c.source == nil {
		return false
	}
	for n := range c.source.names {
		if strings.HasSuffix(n, "TrainingArguments") || huggingFaceConfigs[n] {
			return true
		}
	}
	return false
}

var huggingFaceConfigs = set("SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig", "KTOConfig", "ORPOConfig", "CPOConfig", "PPOConfig", "RLOOConfig",
	"OnlineDPOConfig", "PRMConfig", "GKDConfig")
