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
	return slices.ContainsFunc(s.calls, func(c call) bool {
		return last(c.callee) == "set_num_threads" && len(c.args) == 1 && len(c.args[0].tokens) == 1 && c.args[0].tokens[0].kind == number
	})
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
	again, names := s.loadsSnapshot()
	aware := names != nil || s.aware()
	save, load := s.stateCall(saveCalls, dumpCalls, aware), s.stateCall(loadCalls, readCalls, aware)
	stop = s.stopSignal()
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

var trainName = regexp.MustCompile(`(?i)train|fit`)

// replay reports whether OPTIMIZE_REPLAY = True is set at module level.
func (s *script) replay() bool {
	return slices.ContainsFunc(s.assignments, func(a assignment) bool {
		return a.how == assigned && a.target == "OPTIMIZE_REPLAY" && a.scope == "" && len(a.value) == 1 && a.value[0].s == "True"
	})
}
