package inspect

import (
	"regexp"
	"slices"
	"strings"
)

// variables are the environment variables by which an allocation or a setting reaches a script.
var variables = []string{
	"COST_PER_CPU_HOUR", "COST_PER_GB_HOUR", "COST_PER_GPU_HOUR", "CUDA_VISIBLE_DEVICES", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS",
	"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "OPTIMIZER_BATCH_SIZE", "OPTIMIZER_CHECKPOINT_DIR", "OPTIMIZER_DATASET_PATH", "OPTIMIZER_EPOCHS",
	"OPTIMIZER_LOG", "OPTIMIZER_MEMORY_GB", "OPTIMIZER_NUM_WORKERS", "OPTIMIZER_PIN_MEMORY", "OPTIMIZER_RANDOM_SEED", "OPTIMIZER_RESUME", "OPTIMIZER_RUN_ID",
}

// reads returns the elements of Variables that reach the script: those it names itself, and those that its framework
// reads (threads; visible devices if it uses a GPU). A variable counts if it occurs more often than the script
// assigns it; an assignment by the script is a warning.
func (s *script) reads(framework string, gpu bool) (names, warnings []string) {
	written := map[string]int{}
	for _, a := range s.assignments {
		if key := subscript(a.target); key != "" && a.how == assigned && strings.Contains(a.target, "environ[") {
			written[key]++
			if slices.Contains(variables, key) {
				warnings = append(warnings, "the script sets "+key+" itself in line "+itoa(a.line)+": what it is given there does not count")
			}
		}
	}
	count := map[string]int{}
	for _, t := range s.strings {
		count[t.s]++
	}
	for _, v := range variables {
		if count[v] > written[v] {
			names = append(names, v)
		}
	}
	implied := func(v string) {
		if written[v] == 0 && !slices.Contains(names, v) {
			names = append(names, v)
		}
	}
	switch framework {
	case "", "stdlib":
	default:
		if !s.fixedThreads() {
			implied("OMP_NUM_THREADS")
		}
		if gpu {
			implied("CUDA_VISIBLE_DEVICES")
		}
	}
	slices.Sort(names)
	return names, warnings
}

// fixedThreads reports whether the script sets its number of threads to a literal.
func (s *script) fixedThreads() bool {
	for i := range s.calls {
		if c := &s.calls[i]; last(c.callee) == "set_num_threads" && len(c.args) == 1 && len(c.args[0].tokens) == 1 && c.args[0].tokens[0].kind == number {
			return true
		}
	}
	return false
}

var (
	saveCalls = set("save_checkpoint", "save_weights", "save_state", "save_pretrained", "save_state_dict", "savez", "savez_compressed", "save_model", "write_checkpoint", "torch.save")
	loadCalls = set("load_checkpoint", "load_weights", "load_state", "load_state_dict", "restore", "restore_checkpoint", "load_from_checkpoint", "read_checkpoint", "torch.load")
	dumpCalls = set("dump", "dumps", "save")
	readCalls = set("load", "loads", "load_model")
	stateWord = regexp.MustCompile(`(?i)(checkpoint|ckpt|resume|snapshot)`)
)

// resumable returns "yes" when the script saves on SIGUSR1 or SIGTERM and resumes from its checkpoint when restarted
// with the same command, otherwise "no". stop is the signal on which it saves; the warning names the missing part of
// an almost resumable script.
func (s *script) resumable() (is, stop Finding, warning string) {
	save, load := s.stateCall(saveCalls, dumpCalls, s.aware()), s.stateCall(loadCalls, readCalls, s.aware())
	stop = s.stopSignal()
	again, _ := s.loadsSnapshot()
	switch {
	case s.protocol():
		return s.found("yes", stop.Line), stop, "" // by any file format
	case s.leased() > 0 && s.calling("save", "save_checkpoint") > 0 && s.calling("load", "load_checkpoint") > 0:
		return s.found("yes", s.leased()), stop, ""
	case save > 0 && load > 0 && stop.Value != "" && again.Value != "":
		return s.found("yes", save), stop, ""
	case save > 0 && load > 0 && stop.Value != "":
		return s.found("no", save), stop, "the script saves on " + stop.Value + " but loads a checkpoint only if an argument requests it" + NotResumable
	case save > 0 && load > 0:
		return s.found("no", save), stop, "the script saves and loads checkpoints but handles neither SIGUSR1 nor SIGTERM" + NotResumable
	case stop.Value != "" && save > 0:
		return s.found("no", save), stop, "the script saves on " + stop.Value + " but nothing in it loads what it saved" + NotResumable
	}
	return Finding{Value: "no"}, stop, ""
}

// leased returns the line at which the script wraps its data in the iterator of package lease, which ends the training
// loop on SIGUSR1; 0 without one.
func (s *script) leased() int {
	for i := range s.calls {
		if c := &s.calls[i]; c.full == "optimize_lease.Lease" || c.full == "optimize_lease.GavelIterator" {
			return c.line
		}
	}
	return 0
}

// calling returns the line of the first call of a method with one of the names; 0 without one.
func (s *script) calling(names ...string) int {
	for i := range s.calls {
		if c := &s.calls[i]; strings.Contains(c.callee, ".") && slices.Contains(names, last(c.callee)) {
			return c.line
		}
	}
	return 0
}

// aware reports whether the code of a script mentions checkpoints.
func (s *script) aware() bool {
	for n := range s.names {
		if stateWord.MatchString(n) {
			return true
		}
	}
	return slices.ContainsFunc(s.strings, func(t token) bool { return len(t.s) < 100 && stateWord.MatchString(t.s) })
}

// mentions reports whether a string of the code, not a comment, equals the given text.
func (s *script) mentions(text string) bool {
	return slices.ContainsFunc(s.strings, func(t token) bool { return t.s == text })
}

// stateCall returns the line of a call that certainly saves (or loads) state, or of one that may (json.dump) in a
// script aware of checkpoints; 0 without one.
func (s *script) stateCall(sure, maybe map[string]bool, aware bool) int {
	weak := 0
	for i := range s.calls {
		c := &s.calls[i]
		end := last(c.full)
		if sure[end] || sure[c.full] {
			return c.line
		}
		if weak == 0 && aware && maybe[end] && strings.Contains(c.callee, ".") {
			weak = c.line
		}
	}
	return weak
}

// stopSignal returns which of SIGUSR1 and SIGTERM the script handles by its own function. A handler registered in a
// loop over signals counts for each signal named in the script; SIG_IGN and SIG_DFL do not count.
func (s *script) stopSignal() Finding {
	if line := s.leased(); line > 0 {
		return s.found("SIGUSR1", line)
	}
	handler, named := 0, map[string]int{}
	for i := range s.calls {
		c := &s.calls[i]
		if c.full != "signal.signal" && last(c.callee) != "add_signal_handler" || len(c.args) < 2 {
			continue
		}
		does := c.args[1].tokens
		if mentionsName(does, "SIG_IGN") || mentionsName(does, "SIG_DFL") {
			continue
		}
		direct := false
		for _, t := range c.args[0].tokens {
			if strings.HasPrefix(t.s, "SIG") && t.kind == name {
				direct = true
				if named[t.s] == 0 {
					named[t.s] = c.line
				}
			}
		}
		if !direct && handler == 0 {
			handler = c.line
		}
	}
	for _, sig := range []string{"SIGUSR1", "SIGTERM"} {
		if line := named[sig]; line > 0 {
			return s.found(sig, line)
		}
		if handler > 0 && s.names[sig] > 0 { // for s in (signal.SIGUSR1, …): signal.signal(s, f)
			return s.found(sig, handler)
		}
	}
	return Finding{}
}

var (
	stepName  = regexp.MustCompile(`(?i)(one_|_step|step_|epoch|batch|_iter|_loop_body|_fn$|_func$|evaluat|valid|test|parse|setup|init|config|seed|log|worker)`)
	entryName = regexp.MustCompile(`(?i)^(main|train|training|run|fit|train_model|run_training|start_training|train_and_evaluate|cli|app)$`)
	trainName = regexp.MustCompile(`(?i)train|fit`)
)

// entry finds the function in which training starts; helpers such as train_one_epoch do not count. "__main__" means
// training at module level. Calls at module level have more weight in the main block and for typical names
// (entryWeight). Without such a call, definitions with typical names are considered, then a loop at module level.
func (s *script) entry() Finding {
	defined := map[string]int{}
	for _, d := range s.definitions {
		if d.scope == "" && (!d.class || trainName.MatchString(d.name)) {
			defined[d.name] = d.line
		}
	}
	var clues []clue
	for i := range s.calls {
		c := &s.calls[i]
		line, ok := defined[c.callee]
		if !ok || !c.module {
			continue
		}
		weight := 12.0
		if c.main {
			weight = 20
		}
		clues = append(clues, clue{c.callee, weight + entryWeight(c.callee), line})
	}
	if len(clues) == 0 {
		for _, d := range s.definitions {
			if w := entryWeight(d.name); w > 0 && !d.class && d.scope == "" {
				clues = append(clues, clue{d.name, w, d.line})
			}
		}
	}
	f := s.heaviest(clues)
	if f.Value != "" && !stepName.MatchString(f.Value) {
		return f
	}
	if line := s.moduleLoop(); line > 0 {
		return s.found("__main__", line)
	}
	return f
}

// entryWeight rates the name of a function as an entry point; helpers are negative.
func entryWeight(n string) float64 {
	switch {
	case strings.EqualFold(n, "main"):
		return 6
	case entryName.MatchString(n):
		return 5
	case stepName.MatchString(n):
		return -8
	case trainName.MatchString(n):
		return 4
	}
	return 0
}

// moduleLoop returns the line of a training loop or call outside all functions, 0 without one.
func (s *script) moduleLoop() int {
	for _, c := range s.epochHeads() {
		if c.scope == "" {
			return c.line
		}
	}
	for i := range s.calls {
		if c := &s.calls[i]; c.module && (last(c.callee) == "fit" || last(c.callee) == "train") && strings.Contains(c.callee, ".") {
			return c.line
		}
	}
	return 0
}

// epochHeads returns the loops over epochs.
func (s *script) epochHeads() []statement {
	var heads []statement
	for _, st := range s.statements {
		if len(st.tokens) > 4 && st.tokens[0].s == "for" && strings.HasPrefix(strings.ToLower(strings.Trim(st.tokens[1].s, "_")), "ep") {
			heads = append(heads, st)
		}
	}
	return heads
}

var (
	logName  = regexp.MustCompile(`(?i)(log|metric|histor|progress|result|record|stat)`)
	readName = regexp.MustCompile(`(?i)(^|_)(read|load|fetch|genfromtxt|loadtxt|train_csv|scan)|dataset|DataFrame$`)
	writers  = set("CSVLogger", "to_csv", "savetxt", "write_csv", "FileHandler", "Log", "Logger", "CsvLogger")
)

// logFile finds the literal name of the CSV file that the script writes. Candidates are files opened for writing and
// arguments of CSV writers, then options, variables and keywords with names such as "log" or "metrics".
func (s *script) logFile() Finding {
	var clues []clue
	add := func(t []token, weight float64, line int) {
		if v, ok := s.fileName(t); ok {
			if logName.MatchString(v) {
				weight += 2
			}
			clues = append(clues, clue{v, weight, line})
		}
	}
	for i := range s.calls {
		c := &s.calls[i]
		if len(c.args) == 0 || readName.MatchString(last(c.callee)) {
			continue
		}
		end := last(c.callee)
		switch {
		case end == "open":
			if mode, ok := openMode(c); ok && strings.ContainsAny(mode, "wax") {
				add(c.args[0].tokens, 10, c.line)
			}
		case writers[end]:
			for _, a := range c.args {
				add(a.tokens, 10, c.line)
			}
		case end == "add_argument":
		default:
			for _, a := range c.args {
				if logName.MatchString(a.key) {
					add(a.tokens, 5, c.line)
				}
			}
		}
	}
	for _, o := range s.options {
		if len(o.names) > 0 && logName.MatchString(strings.Join(o.names, " ")) {
			add(o.value, 8, o.line)
		}
	}
	for _, a := range s.assignments {
		if n := last(a.target); logName.MatchString(n) || strings.Contains(strings.ToLower(n), "csv") {
			add(a.value, 5, a.line)
		}
	}
	return s.heaviest(clues)
}

// openMode returns the literal mode of an open call.
func openMode(c *call) (string, bool) {
	if m, ok := c.arg("mode"); ok {
		v, ok := lastString(m)
		return v.s, ok
	}
	if len(c.args) > 1 && c.args[1].key == "" {
		v, ok := lastString(c.args[1].tokens)
		return v.s, ok
	}
	m, ok := c.positional(0) // the mode is the first argument of Path("x.csv").open("w")
	if v, only := onlyString(m); ok && only && len(v) <= 2 {
		return v, true
	}
	return "", false
}

// fileName returns a literal .csv name, with %s and {NAME} replaced by constants of the script.
func (s *script) fileName(t []token) (string, bool) {
	if len(t) == 1 && t[0].kind == name {
		t = s.value(t[0].s)
	}
	if len(t) > maxExpression {
		return "", false
	}
	at := -1
	for i := len(t) - 1; i >= 0 && at < 0; i-- {
		if (t[i].kind == text || t[i].kind == fstring) && strings.HasSuffix(strings.ToLower(t[i].s), ".csv") {
			at = i
		}
	}
	if at < 0 {
		return "", false
	}
	v := t[at].s
	if t[at].kind == fstring || strings.Contains(v, "{") {
		if v, ok := s.filled(v); ok && t[at].kind == fstring {
			return v, true
		}
		return "", false
	}
	if strings.Count(v, "%s") == 1 && strings.Count(v, "%") == 1 && at+2 < len(t) && t[at+1].s == "%" {
		path, _ := dotted(t, at+2)
		known, ok := s.stringOf([]token{{kind: name, s: path}})
		return strings.Replace(v, "%s", known, 1), ok
	}
	return v, !strings.Contains(v, "%")
}

var field = regexp.MustCompile(`\{([A-Za-z_][A-Za-z_0-9.]*)\}`)

// filled replaces each {NAME} by the string value of NAME; ok is false when one is unknown.
func (s *script) filled(v string) (string, bool) {
	ok := true
	v = field.ReplaceAllStringFunc(v, func(f string) string {
		known, found := s.stringOf([]token{{kind: name, s: f[1 : len(f)-1]}})
		ok = ok && found
		return known
	})
	return v, ok && !strings.ContainsAny(v, "{}")
}

// replay reports whether OPTIMIZE_REPLAY = True is set at module level.
func (s *script) replay() bool {
	return slices.ContainsFunc(s.assignments, func(a assignment) bool {
		return a.how == assigned && a.target == "OPTIMIZE_REPLAY" && a.scope == "" && len(a.value) == 1 && a.value[0].s == "True"
	})
}
