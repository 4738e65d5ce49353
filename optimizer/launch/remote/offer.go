package remote

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"trainopt/optimizer/engine"
)

// Wish is what the user's options for the site say about the nodes to use.
type Wish struct {
	Partition string // one or several, separated by commas; empty: the default of the site
	GPUType   string // empty: any
	Feature   string // the constraint on the features of nodes, in the engine's language; empty: any
	Nodes     int    // of each job; 0 means 1
	Whole     bool   // jobs are to have their nodes for themselves
	gpus      bool   // the options ask for GPUs
	number    string // of GPUs that the option numbered states; empty: none does
	numbered  string
}

// ReadWish reads the options of sbatch that select nodes: --partition, --constraint, --exclusive, and the type in --gres
// and --gpus…; other options are the engine's business.
func ReadWish(options []string) Wish {
	var w Wish
	for i, o := range options {
		name, value, joined := strings.Cut(o, "=")
		if !joined {
			switch {
			case len(o) > 2 && o[0] == '-' && o[1] != '-':
				name, value = o[:2], o[2:]
			case i+1 < len(options):
				value = options[i+1]
			}
		}
		switch name {
		case "--partition", "-p":
			w.Partition = value
		case "--constraint", "-C":
			w.Feature = value
		case "--exclusive": // with a value, others of the same user may be admitted
			w.Whole = !joined
		case "--gres":
			for item := range strings.SplitSeq(value, ",") {
				if kind, of, _ := strings.Cut(strings.TrimPrefix(item, "gres/"), ":"); kind == "gpu" {
					w.readGPUs(o, of)
				}
			}
		case "--gpus", "-G", "--gpus-per-node", "--gpus-per-task":
			for item := range strings.SplitSeq(value, ",") {
				w.readGPUs(o, item)
			}
		}
	}
	return w
}

// readGPUs reads the GPUs that an option requests: TYPE, NUMBER or TYPE:NUMBER.
func (w *Wish) readGPUs(option, request string) {
	kind, number, both := strings.Cut(request, ":")
	if !both && isCount(kind) {
		kind, number = "", kind
	}
	if kind != "" {
		w.GPUType = kind
	}
	if number != "" {
		w.number, w.numbered = number, option
	}
	w.gpus = w.gpus || number != "0"
}

// CheckNumber returns an error if the options state a number of GPUs other than that of --gpus, from which each request is
// planned.
func (w Wish) CheckNumber(gpus string) error {
	if w.number == "" || w.number == gpus {
		return nil
	}
	return fmt.Errorf("--engine-arg=%s states a number of GPUs: state it by --gpus %s instead (of each node), and name only their type here, as in --gres=gpu:a100",
		w.numbered, w.number)
}

func isCount(s string) bool { return strings.Trim(s, "0123456789") == "" }

// AsksGPUs reports whether jobs are to ask for GPUs: the training may use them, or the options ask for them, and, as far as
// the offers are known, one that agrees with the wish has any.
func (w Wish) AsksGPUs(offers []engine.Offer, mayUse bool) bool {
	return (mayUse || w.gpus) && (len(offers) == 0 || slices.ContainsFunc(offers, func(o engine.Offer) bool { return o.GPUs > 0 && w.Fits(o) }))
}

// Choose returns the offer that a run plans for: among those that agree with the wish, one with GPUs if the job may use
// them, then the one with most idle nodes, then the largest. The error names what there is.
func (w Wish) Choose(offers []engine.Offer, gpus bool) (engine.Offer, error) {
	var fit []engine.Offer
	for _, o := range offers {
		if w.Fits(o) {
			o.PerJob = w.Nodes
			fit = append(fit, o)
		}
	}
	for _, p := range strings.Split(w.Partition, ",") {
		if w.Partition != "" && !slices.ContainsFunc(offers, func(o engine.Offer) bool { return o.Partition == p }) {
			fit, w.Partition = nil, p
			break
		}
	}
	if len(fit) == 0 {
		var names []string
		for _, o := range offers {
			names = append(names, describe(o))
		}
		if len(names) == 0 {
			return engine.Offer{}, fmt.Errorf("no node is up that you may use")
		}
		return engine.Offer{}, fmt.Errorf("no node agrees with %s; there are %s", w, strings.Join(names, "; "))
	}
	score := func(o engine.Offer) int {
		if gpus == (o.GPUs > 0) {
			return 1
		}
		return 0
	}
	return slices.MinFunc(fit, func(a, b engine.Offer) int {
		return cmp.Or(cmp.Compare(score(b), score(a)), cmp.Compare(b.Idle, a.Idle), cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.CPUs, a.CPUs),
			strings.Compare(a.Partition+a.GPUType, b.Partition+b.GPUType))
	}), nil
}

// Fits reports whether an offer agrees with the wish and has as many nodes that are up, at least one.
func (w Wish) Fits(o engine.Offer) bool {
	return (w.Partition == "" && o.Default || slices.Contains(strings.Split(w.Partition, ","), o.Partition)) && (w.GPUType == "" || strings.EqualFold(o.GPUType, w.GPUType)) &&
		hasFeatures(o.Features, w.Feature) && o.Nodes >= max(1, w.Nodes)
}

// hasFeatures reports whether nodes with the given features may meet a constraint: "a&b" requires all of them, "a|b" one,
// and "" none. What else the engine's language of constraints contains, such as brackets, numbers of nodes, and & beside |,
// may be met, and is left to the engine.
func hasFeatures(features []string, constraint string) bool {
	has := func(f string) bool { return slices.Contains(features, strings.TrimSpace(f)) }
	all, anyOf := strings.Split(constraint, "&"), strings.Split(constraint, "|")
	switch {
	case constraint == "" || strings.ContainsAny(constraint, "[]()*,!") || len(all) > 1 && len(anyOf) > 1:
		return true
	case len(anyOf) > 1:
		return slices.ContainsFunc(anyOf, has)
	}
	return !slices.ContainsFunc(all, func(f string) bool { return !has(f) })
}

// Named returns the options without the one that names several partitions: Place names the one that was chosen.
func (w Wish) Named(options []string) []string {
	if !strings.Contains(w.Partition, ",") {
		return options
	}
	return slices.DeleteFunc(slices.Clone(options), func(o string) bool { return strings.HasPrefix(o, "--partition=") || strings.HasPrefix(o, "-p") })
}

// String formats the wish for messages.
func (w Wish) String() string {
	var parts []string
	for _, p := range []struct{ name, value string }{{"partition", w.Partition}, {"GPU type", w.GPUType}, {"feature", w.Feature}} {
		if p.value != "" {
			parts = append(parts, p.name+" "+p.value)
		}
	}
	if len(parts) == 0 {
		parts = []string{"the default partition"}
	}
	if w.Nodes > 1 {
		parts = append(parts, fmt.Sprintf("%d nodes of one kind", w.Nodes))
	}
	return strings.Join(parts, ", ")
}

// describe formats an offer as a short phrase.
func describe(o engine.Offer) string {
	text := fmt.Sprintf("%s: %d CPU, %.4g GiB", o.Partition, o.CPUs, float64(o.Memory))
	if o.GPUs > 0 {
		text += fmt.Sprintf(", %d %s", o.GPUs, cmp.Or(o.GPUType, "GPU"))
	}
	return fmt.Sprintf("%s on %s (%d idle)", text, nodes(o.Nodes), o.Idle)
}

func nodes(n int) string {
	if n == 1 {
		return "1 node"
	}
	return fmt.Sprintf("%d nodes", n)
}
