package platform

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/internal/wording"
	"trainopt/optimizer/schedule"
)

// accelerators are the accelerators of one kind in a cluster.
type accelerators struct {
	schedule.DeviceType // the last server may have fewer than PerServer; Watts is the maximum, see powerLimit
	// PriceFrom is the source and date of the price; "" if unknown.
	PriceFrom string
}

// Cluster is a set of accelerators, sorted by name, each kind once.
type Cluster []accelerators

// maxCount is the maximum number of accelerators of one kind; larger numbers are considered input errors.
const maxCount = 1_000_000

// Parse parses the number of accelerators by kind, "v100=36,p100=36,k80=36", each in a server of its own. Names are
// those in known, ignoring case (any name if known is empty); kinds with number 0 are omitted. The error describes all
// problems in one line. Prices are unknown.
func Parse(s string, known []string) (Cluster, error) {
	var c Cluster
	var problems []error
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ",") {
		a, err := parseKind(strings.TrimSpace(part), known)
		switch {
		case err != nil:
			problems = append(problems, err)
		case seen[a.Name]:
			problems = append(problems, fmt.Errorf("%s is there twice", a.Name))
		case a.Count > 0:
			c = append(c, a)
		}
		seen[a.Name] = true
	}
	if len(problems) == 0 && len(c) == 0 {
		problems = append(problems, errors.New("it has no accelerator"))
	}
	if len(problems) > 0 {
		words := make([]string, len(problems))
		for i, p := range problems {
			words[i] = p.Error()
		}
		return nil, fmt.Errorf("read cluster %q: %s", s, strings.Join(words, "; "))
	}
	slices.SortFunc(c, func(a, b accelerators) int { return strings.Compare(a.Name, b.Name) })
	return c, nil
}

// parseKind parses one "kind=number".
func parseKind(part string, known []string) (accelerators, error) {
	name, number, ok := strings.Cut(part, "=")
	name, number = strings.TrimSpace(name), strings.TrimSpace(number)
	if !ok || name == "" {
		return accelerators{}, fmt.Errorf("%q: want a kind and its number, such as v100=36", part)
	}
	named := accelerators{DeviceType: schedule.DeviceType{Name: name}}
	if i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, name) }); i >= 0 {
		name = known[i]
	} else if len(known) > 0 {
		return named, fmt.Errorf("%q is not known, did you mean %s?", name, strings.Join(wording.Nearest(name, known, 2), " or "))
	}
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > maxCount {
		return named, fmt.Errorf("%q accelerators of kind %s: want a whole number up to %d", number, name, maxCount)
	}
	return accelerators{DeviceType: schedule.DeviceType{Name: name, Count: n, PerServer: 1, USDHour: math.NaN(), Watts: powerLimit(name)}}, nil
}

// InServers returns the same cluster with a different number of accelerators per server: text is "8" for all kinds or
// "a100=8,t4=4" by kind; kinds that are not named are unchanged.
func (c Cluster) InServers(text string) (Cluster, error) {
	out := slices.Clone(c)
	for part := range strings.SplitSeq(text, ",") {
		name, number, byKind := strings.Cut(part, "=")
		if !byKind {
			name, number = "", part
		}
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 || n > maxCount || !byKind && text != part {
			return nil, fmt.Errorf("servers of %q accelerators: want a number from 1, or kind=number by kind", text)
		}
		found := false
		for i := range out {
			if !byKind || out[i].Name == strings.TrimSpace(name) {
				out[i].PerServer, found = n, true
			}
		}
		if !found {
			return nil, fmt.Errorf("servers of %q accelerators: the cluster has no %q", text, strings.TrimSpace(name))
		}
	}
	return out, nil
}
