package inspect

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxNesting is the maximum depth of shell scripts searched for a Python command.
const maxNesting = 4

// inspectArgv inspects the script run by argv; relative paths refer to dir ("" is the working directory). ok is false
// without a readable script. A Python program takes precedence; otherwise the first shell script, or a program given
// by its path, is inspected according to its kind.
func inspectArgv(argv []string, dir string, depth int) (Inspection, bool) {
	if py, ok := findPython(argv); ok {
		return inspectPythonCommand(py, dir)
	}
	for i, w := range argv {
		if strings.HasPrefix(w, "-") || strings.Contains(w, "=") && i == 0 {
			continue
		}
		isShell := fileKind(w, nil) == kindShell
		if !isShell && (i > 0 || !strings.Contains(w, "/")) {
			continue
		}
		path := at(dir, w)
		data, sum, err := read(path)
		if err != nil {
			continue
		}
		ins := Inspection{Kind: fileKind(path, data)}
		switch ins.Kind {
		case kindPython:
			ins = inspectPython(data)
		case kindShell:
			ins = inspectShellAt(path, data, argv[i+1:], depth+1)
		default:
			continue
		}
		ins.Path, ins.SHA256 = path, sum
		ins.Override(argv[i+1:])
		return ins, true
	}
	return Inspection{}, false
}

// inspectPythonCommand inspects inline code, a module (its file or __main__.py) or a script, and applies the
// arguments. A missing module is silent, a missing script is a warning.
func inspectPythonCommand(py pythonCommand, dir string) (Inspection, bool) {
	if py.code != "" {
		ins := inspectPython([]byte(py.code))
		ins.Override(py.args)
		return ins, true
	}
	candidates := []string{at(dir, py.script)}
	if py.module != "" {
		base := at(dir, strings.ReplaceAll(py.module, ".", "/"))
		candidates = []string{base + ".py", filepath.Join(base, "__main__.py")}
	}
	for _, path := range candidates {
		data, sum, err := read(path)
		if err != nil {
			continue
		}
		ins := inspectPython(data)
		ins.Path, ins.SHA256 = path, sum
		ins.Override(py.args)
		return ins, true
	}
	if py.module != "" {
		return Inspection{}, false
	}
	return Inspection{Warnings: []string{"the command runs " + quote(candidates[0]) + ", which cannot be read"}}, false
}

// at resolves a path relative to dir.
func at(dir, path string) string {
	if filepath.IsAbs(path) || dir == "" {
		return path
	}
	return filepath.Join(dir, path)
}

// inspectShellAt inspects every command of a shell script, to at most maxNesting nested scripts, and returns the
// inspection with the highest commandScore, the last among equals.
func inspectShellAt(path string, data []byte, args []string, depth int) Inspection {
	if len(data) > maxSource {
		data = data[:maxSource]
	}
	src, warnings := decode(data)
	home := filepath.Dir(path)
	best := Inspection{Kind: kindShell}
	var missing []string
	score := 0
	dir := "" // target of the last cd; "" before the first one
	for _, c := range shellCommands(src, home, args, nil) {
		if c.words[0] == "cd" && len(c.words) > 1 {
			dir = at(dir, c.words[1])
			continue
		}
		if depth >= maxNesting {
			break
		}
		ins, ok := inspectInShell(c.words, dir, home, depth)
		missing = append(missing, ins.Warnings...)
		if !ok {
			continue
		}
		if now := commandScore(ins); now >= score {
			score = now
			if ins.Script == "" {
				ins.Script = ins.Path
			}
			best = ins
		}
	}
	if best.Script == "" && len(missing) > 0 {
		best.Warnings = append(best.Warnings, missing[0])
	}
	best.Kind = kindShell
	best.Warnings = append(best.Warnings, warnings...)
	return best
}

// inspectInShell searches for the script in the current folder of the shell, then in the folder of its script.
func inspectInShell(words []string, dir, home string, depth int) (Inspection, bool) {
	if ins, ok := inspectArgv(words, dir, depth); ok || dir != "" {
		return ins, ok
	}
	return inspectArgv(words, home, depth)
}

// commandScore ranks the Python commands of a shell script; the training command scores highest.
func commandScore(ins Inspection) int {
	n := 1
	if trainName.MatchString(filepath.Base(ins.Path)) {
		n += 4
	}
	if ins.Framework.Value != "" && ins.Framework.Value != "stdlib" {
		n += 2
	}
	if ins.setsLength {
		n++
	}
	return n
}

// Override applies the options of a command line over the defaults of the script. The last part of a dotted key
// counts, as in Hydra's trainer.max_epochs=5.
func (ins *Inspection) Override(args []string) {
	for i, a := range args {
		key, value, ok := strings.Cut(a, "=")
		if !ok && strings.HasPrefix(a, "-") && i+1 < len(args) {
			value = args[i+1]
		}
		option := strings.HasPrefix(a, "-")
		path := strings.ReplaceAll(strings.TrimLeft(key, "-"), "-", "_")
		key = last(path) // Hydra: trainer.max_epochs=5
		part := strings.TrimSuffix(strings.TrimSuffix(path, key), ".")
		if uses, known := deviceArgument(key, value, ins.GPU); known && (ok || option) && (uses == "yes" || wholeTraining[part]) {
			shown := a
			if !ok && value != "" && !noGPU[key] {
				shown += " " + value
			}
			ins.GPU = Finding{Value: uses, Text: shown}
			if n, err := strconv.Atoi(value); uses == "no" || anotherGPUByName(value) || err == nil && n > 0 && (n > 1 || !gpuCounts[key]) {
				ins.Warnings = slices.DeleteFunc(ins.Warnings, func(w string) bool { return w == OneGPU })
			}
			continue
		}
		if value == "" || !ok && !option {
			continue
		}
		shown := a
		if !ok {
			shown += " " + value
		}
		set := func(f *Finding, v string) {
			if v != "" {
				*f = Finding{Value: v, Text: shown}
			}
		}
		n, _ := wholeNumber([]token{{kind: number, s: value}})
		switch {
		case batchName.MatchString(key) || key == "b":
			set(&ins.BatchSize, n)
		case epochName.MatchString(key):
			ins.setsLength = ins.setsLength || n != ""
		case modelSetting[key] || key == "a":
			set(&ins.Model, modelFamilies.match(value))
		case datasetSetting[key]:
			set(&ins.Dataset, datasetFamilies.match(value))
		}
	}
}

var (
	noGPU  = set("no_cuda", "no_gpu", "no_accel", "use_cpu", "cpu_only") // options without a value
	gpuIDs = set("gpu", "gpu_id", "gpu_ids", "gpu_idx", "gpuid", "gpuids")
	// wholeTraining are the parts of a configuration whose device is that of the training.
	wholeTraining = set("", "trainer", "training", "train", "model", "policy")
	gpuCounts     = set("gpus", "ngpu", "ngpus", "n_gpu", "n_gpus", "num_gpu", "num_gpus")
)

// deviceArgument returns whether a GPU is used after an argument of the command line that selects the device: "yes", "no",
// or "" if the default of the script is the CPU and the argument names a device that is not known. known is false for
// other arguments.
func deviceArgument(key, value string, byDefault Finding) (uses string, known bool) {
	value = strings.ToLower(value)
	kind, _, _ := strings.Cut(value, ":")
	first, _, list := strings.Cut(value, ",")
	n, err := strconv.Atoi(first)
	switch {
	case noGPU[key]:
		return "no", value != "false" && value != "no" && value != "0"
	case kind == "cuda":
		return "yes", true
	case key == "device" || key == "accelerator":
		switch {
		case kind == "cpu":
			return "no", true
		case kind == "gpu", key == "device" && err == nil && n >= 0:
			return "yes", true
		}
		return "", value != "" && byDefault.Value == "no" && byDefault.Line > 0
	case gpuIDs[key]:
		switch {
		case err == nil && n < 0:
			return "no", true
		case err == nil, value == "", strings.HasPrefix(value, "--"): // a number, or a switch
			return "yes", true
		}
	case gpuCounts[key] && err == nil:
		switch {
		case list || n > 0:
			return "yes", true
		case n == 0 && key != "gpus": // which may be the number of a device
			return "no", true
		}
	}
	return "", false
}

// isFile reports whether path is a regular file, after resolving links.
func isFile(path string) bool {
	st, err := os.Stat(path)
	return err == nil && st.Mode().IsRegular()
}
