package predict

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"trainopt/optimizer/report/page"
)

// exports is the registry of files for other systems, one line each.
var exports = map[string]func(*submission) (string, error){
	"k8s-job": (*submission).k8sJob,
	"sbatch":  (*submission).sbatch,
	"sky":     (*submission).sky,
}

// Exports returns the kinds of files that Export writes, sorted.
func Exports() []string { return slices.Sorted(maps.Keys(exports)) }

// Export writes the chosen option of a feasible answer as a file that starts the command there: a batch script of Slurm
// ("sbatch"), a task of SkyPilot ("sky") or a Job of Kubernetes ("k8s-job"). The file requests only what was predicted, or belongs to the machine of the
// option; its comments state the prediction and its basis. image is the container image of a Job; empty: a placeholder that
// its comments name.
func Export(w io.Writer, a *answer, kind string, command []string, image string) error {
	write, ok := exports[kind]
	if !ok {
		return fmt.Errorf("export the prediction as %q: unknown, want one of %s", kind, strings.Join(Exports(), ", "))
	}
	if a.Chosen < 0 || !a.Feasible {
		return fmt.Errorf("export the prediction as %s: no option meets the limits: %s", kind, a.Nearest)
	}
	if len(command) == 0 || command[0] == "" {
		return fmt.Errorf("export the prediction as %s: the command of the job is missing", kind)
	}
	for _, word := range command {
		if strings.ContainsRune(word, 0) {
			return fmt.Errorf("export the prediction as %s: the command contains a NUL byte", kind)
		}
	}
	s := newSubmission(a, command)
	s.image = image
	text, err := write(s)
	if err != nil {
		return fmt.Errorf("export the prediction as %s: %w", kind, err)
	}
	_, err = io.WriteString(w, text)
	return err
}

const (
	// limitMargin is added to the upper end of the predicted time.
	limitMargin = 0.10
	// saveSeconds is the time before the limit at which a resumable job is asked to save. Slurm may ask a minute earlier.
	saveSeconds = 300
)

// submission is the content of an exported file.
type submission struct {
	answer  *answer
	option  *option
	config  *configuration
	command []string
	name    string
	cpus    int     // per node: those of the machine, or its part
	image   string  // container image; empty: not given
	memory  float64 // GiB per node that hold the predicted peak; NaN if it is not predicted
}

func newSubmission(a *answer, command []string) *submission {
	o := &a.Options[a.Chosen]
	c := &a.Configurations[o.Config]
	s := &submission{answer: a, option: o, config: c, command: command, name: jobName(a.Question.subject()), cpus: c.CPUs, memory: math.NaN()}
	if c.GPUs > 0 {
		s.cpus = o.Offer.CPUs
		if o.Offer.GPUs > 0 {
			s.cpus = max(1, o.Offer.CPUs*c.GPUs/o.Offer.GPUs)
		}
	}
	if known(c.HostPeak) {
		s.memory = max(c.HostPeak.P95, (1+margin)*c.HostPeak.P50)
	}
	return s
}

// jobName returns a subject as the name of a job: letters, digits and . _ - only.
func jobName(subject string) string {
	subject = strings.TrimPrefix(subject, "a job like ")
	name := strings.Trim(notInJobNames.ReplaceAllString(subject, "-"), "-.")
	if len(name) > 60 {
		name = name[:60]
	}
	if name == "" {
		return "training"
	}
	return name
}

var notInJobNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// comments states the prediction and its basis, one line each.
func (s *submission) comments() []string {
	a, o, c := s.answer, s.option, s.config
	price := page.USD(float64(o.Hourly)) + " per hour"
	if dated := o.dated(); dated != "" {
		price += ", prices of " + dated
	}
	lines := []string{
		"Predicted by optimize for " + a.Question.subject() + " on " + a.optionWords(o) + " (" + price + "):",
		"time " + interval(o.Seconds, page.Duration) + ", cost " + interval(o.CostUSD, func(v float64) string { return page.USD(v) }) + " (90 % intervals)",
	}
	if known(c.HostPeak) {
		lines = append(lines, "peak memory of a machine "+interval(c.HostPeak, page.GiB))
	} else {
		lines = append(lines, "memory: not predicted, since no measurement contains it; request it yourself")
	}
	for i := range a.Basis[:min(3, len(a.Basis))] {
		lines = append(lines, "from "+a.Basis[i].words())
	}
	if len(a.Basis) > 3 {
		lines = append(lines, "and "+page.Plural(len(a.Basis)-3, "further group")+" of measurements")
	}
	for i, line := range lines {
		lines[i] = "# " + page.PlainBlanks(page.Clean(line))
	}
	return lines
}

// sbatch returns a batch script.
func (s *submission) sbatch() (string, error) {
	c := s.config
	lines := append([]string{"#!/bin/sh"}, s.comments()...)
	add := func(option string, value any) { lines = append(lines, fmt.Sprintf("#SBATCH --%s=%v", option, value)) }
	add("job-name", s.name)
	add("nodes", c.Nodes)
	add("ntasks-per-node", 1)
	if c.GPUs > 0 {
		lines = append(lines, "# Types of GPUs have the names of the site: sinfo -o %G lists them.")
		add("gpus-per-node", fmt.Sprintf("%s:%d", slurmGPU(c.GPU), c.GPUs))
	}
	add("cpus-per-task", s.cpus)
	if page.Known(s.memory) {
		add("mem", fmt.Sprintf("%.0fM", math.Ceil(s.memory*1024)))
	}
	lines = append(lines, fmt.Sprintf("# The upper end of the predicted time plus %.0f %%.", 100*limitMargin))
	minutes := int64(math.Ceil(s.limitSeconds() / 60))
	add("time", fmt.Sprintf("%d-%02d:%02d:00", minutes/1440, minutes/60%24, minutes%60))
	program := shellWords(s.command)
	if c.Nodes > 1 {
		program = "srun " + program
	}
	if sig := s.saveSignal(); sig != "" {
		lines = append(lines, "# The script saves a checkpoint on this signal.")
		if c.Nodes == 1 {
			sig = "B:" + sig // to the command, which replaces the shell
		}
		add("signal", fmt.Sprintf("%s@%d", sig, saveSeconds))
	}
	return strings.Join(append(lines, "", "exec "+program), "\n") + "\n", nil
}

// saveSignal returns the signal on which the job saves a checkpoint from which it resumes, such as USR1; "" if none is
// known, since a signal that is not handled kills a job.
func (s *submission) saveSignal() string {
	q := s.answer.Question
	if q.Resumable == nil || !*q.Resumable {
		return ""
	}
	return strings.TrimPrefix(q.StopSignal, "SIG")
}

// limitSeconds returns the time limit of the job: the upper end of the predicted time with a margin, and the time to save.
func (s *submission) limitSeconds() float64 {
	seconds := s.option.Seconds.P95 * (1 + limitMargin)
	if s.saveSignal() != "" {
		seconds += saveSeconds
	}
	return seconds
}

// memorySize matches the memory in the name of a GPU model.
var memorySize = regexp.MustCompile(`(?i) \d+GB$`)

// slurmGPU returns the usual name of a GPU model in Slurm: "a100", "rtx_pro_6000".
func slurmGPU(model string) string {
	return strings.Trim(notInGRES.ReplaceAllString(strings.ToLower(memorySize.ReplaceAllString(model, "")), "_"), "_")
}

var notInGRES = regexp.MustCompile(`[^a-z0-9.-]+`)

// skyTask is the form of a task of SkyPilot.
type skyTask struct {
	Name      string       `yaml:"name"`
	Nodes     int          `yaml:"num_nodes,omitempty"`
	Resources skyResources `yaml:"resources"`
	Run       string       `yaml:"run"`
}

// skyResources are those of one node.
type skyResources struct {
	Accelerators string `yaml:"accelerators,omitempty"`
	CPUs         string `yaml:"cpus"`
	Memory       string `yaml:"memory,omitempty"`
	UseSpot      bool   `yaml:"use_spot"`
}

// sky returns a task of SkyPilot as YAML.
func (s *submission) sky() (string, error) {
	c := s.config
	if s.option.Market == marketOwned {
		return "", errors.New("it is for this machine: leave out --here")
	}
	task := skyTask{Name: s.name, Resources: skyResources{CPUs: fmt.Sprintf("%d+", s.cpus), UseSpot: s.option.Market == Spot}, Run: shellWords(s.command) + "\n"}
	if c.Nodes > 1 {
		task.Nodes = c.Nodes
	}
	if c.GPUs > 0 {
		task.Resources.Accelerators = fmt.Sprintf("%s:%d", skyGPU(c.GPU), c.GPUs)
	}
	if page.Known(s.memory) {
		task.Resources.Memory = fmt.Sprintf("%.0f+", math.Ceil(s.memory))
	}
	text, err := yaml.Marshal(task)
	if err != nil {
		return "", err
	}
	return strings.Join(s.comments(), "\n") + "\n" + string(text), nil
}

// skyGPU returns the name of a GPU model in SkyPilot: "A100", "A100-80GB".
func skyGPU(model string) string {
	switch model {
	case "A100 40GB", "V100 16GB": // the memory that has no suffix there
		model = memorySize.ReplaceAllString(model, "")
	}
	return strings.ReplaceAll(model, " ", "-")
}

// plainWord matches a word that a shell does not interpret, if it is not the first one.
var plainWord = regexp.MustCompile(`^[A-Za-z0-9_@%+=:,./-]+$`)

// shellWords quotes a command for a POSIX shell.
func shellWords(command []string) string {
	words := make([]string, len(command))
	for i, word := range command {
		if words[i] = word; !plainWord.MatchString(word) || i == 0 && strings.Contains(word, "=") {
			words[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// ScriptCommand returns the command that starts a script by its extension: .py with python3, .sh with bash, anything else
// by itself.
func ScriptCommand(script string) []string {
	if !strings.ContainsRune(script, '/') && filepath.Ext(script) != ".py" && filepath.Ext(script) != ".sh" {
		script = "./" + script
	}
	if strings.HasPrefix(script, "-") {
		script = "./" + script
	}
	switch strings.ToLower(filepath.Ext(script)) {
	case ".py":
		return []string{"python3", script}
	case ".sh":
		return []string{"bash", script}
	}
	return []string{script}
}
