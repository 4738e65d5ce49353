package slurm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/resources"
)

// nodeFormat is the value of sinfo --format. GRES is the last.
const nodeFormat = "%R|%t|%D|%c|%m|%f|%N|%G"

// Offers returns the kinds of nodes in the partitions that accept jobs of the user, the default partition first. A node
// with two types of GPUs is part of two offers. Kinds of which no node is up are left out. Limits of accounts and
// qualities of service are not considered.
func (e *Engine) Offers(ctx context.Context) ([]engine.Offer, error) {
	all, err := e.Configured(ctx)
	return up(all), err
}

// Configured returns what Offers returns, and the kinds of which no node is up.
func (e *Engine) Configured(ctx context.Context) ([]engine.Offer, error) {
	out, err := e.query(ctx, "sinfo", "--exact", "--format="+nodeFormat)
	if err != nil {
		return nil, fmt.Errorf("list kinds of nodes: %w", err)
	}
	groups, err := parseNodes(out)
	if err != nil {
		return nil, fmt.Errorf("list kinds of nodes: %w", err)
	}
	if out, err = e.query(ctx, "scontrol", "--oneliner", "show", "partition"); err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	partitions, err := parsePartitions(out)
	if err != nil {
		return nil, fmt.Errorf("list partitions: %w", err)
	}
	return configured(groups, partitions), nil
}

// up returns the kinds of which a node is up.
func up(kinds []engine.Offer) []engine.Offer {
	return slices.DeleteFunc(kinds, func(o engine.Offer) bool { return o.Nodes == 0 })
}

// nodeGroup is a line of sinfo: nodes of one partition that are identical and in the same state.
type nodeGroup struct {
	partition string
	state     string
	nodes     int
	names     []string
	cpus      int
	memory    resources.GiB
	features  []string
	gpus      []gres // one entry for nodes without GPUs
}

// gres is a generic resource of a node. The type may be empty.
type gres struct {
	name, kind string
	count      int
}

// parseNodes reads the output of sinfo with nodeFormat, with the header of each cluster.
func parseNodes(text string) ([]nodeGroup, error) {
	var groups []nodeGroup
	var at map[string]int
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if header := columns(line); has(header, "PARTITION", "STATE", "NODES", "CPUS", "MEMORY") {
			at = header
			continue
		}
		cells := strings.SplitN(line, "|", at[""])
		if at == nil || len(cells) < at[""] {
			continue
		}
		cell := func(name string) string {
			if i, ok := at[name]; ok {
				return known(cells[i])
			}
			return ""
		}
		g, err := group(cell)
		if err != nil {
			return nil, fmt.Errorf("sinfo: %q: %w", line, err)
		}
		groups = append(groups, g)
	}
	if at == nil {
		return nil, errors.New("sinfo: output without the columns PARTITION, STATE, NODES, CPUS and MEMORY")
	}
	return groups, nil
}

// group converts a line of sinfo.
func group(cell func(column string) string) (nodeGroup, error) {
	g := nodeGroup{partition: cell("PARTITION"), state: cell("STATE")}
	var errs [5]error
	g.nodes, errs[0] = wholeNumber(cell("NODES"))
	g.cpus, errs[1] = wholeNumber(cell("CPUS"))
	var mb int
	mb, errs[2] = wholeNumber(cell("MEMORY"))
	g.memory = resources.GiB(float64(mb) / 1024)
	if f := cell("AVAIL_FEATURES"); f != "" {
		g.features = strings.Split(f, ",")
	}
	g.names, errs[4] = expandHosts(cell("NODELIST"))
	var all []gres
	all, errs[3] = parseGRES(cell("GRES"))
	for _, r := range all {
		if r.name == "gpu" && r.count > 0 {
			g.gpus = append(g.gpus, r)
		}
	}
	if len(g.gpus) == 0 {
		g.gpus = []gres{{}}
	}
	return g, cmp.Or(errs[:]...)
}

// wholeNumber reads a number from 0 on. A + behind it marks the smallest of several values.
func wholeNumber(text string) (int, error) {
	v, err := parseCount(strings.TrimSuffix(text, "+"))
	if err != nil || v != math.Trunc(v) || v > math.MaxInt32 {
		return 0, fmt.Errorf("%q is not a whole number", text)
	}
	return int(v), nil
}

// parseGRES reads generic resources such as "gpu:a100:4(S:0-1),nvme:1" or "gpu:4". Resources of the same name and type are
// summed. A resource without a number counts as one.
func parseGRES(text string) ([]gres, error) {
	var out []gres
	for _, item := range splitOutside(text) {
		item, _, _ = strings.Cut(item, "(")
		parts := strings.Split(strings.TrimPrefix(item, "gres/"), ":")
		parts = append(parts[:1], slices.DeleteFunc(parts[1:], func(p string) bool { return p == "no_consume" })...)
		r := gres{count: 1}
		if n, err := wholeNumber(parts[len(parts)-1]); err == nil && len(parts) > 1 {
			r.count, parts = n, parts[:len(parts)-1]
		}
		if r.name = parts[0]; r.name == "" {
			return nil, fmt.Errorf("generic resource %q has no name", item)
		}
		r.kind = strings.Join(parts[1:], ":")
		same := func(o gres) bool { return o.name == r.name && o.kind == r.kind }
		if i := slices.IndexFunc(out, same); i >= 0 {
			if out[i].count += r.count; out[i].count > math.MaxInt32 {
				return nil, fmt.Errorf("generic resource %q: too many", item)
			}
			continue
		}
		out = append(out, r)
	}
	return out, nil
}

// splitOutside splits a list at the commas outside parentheses.
func splitOutside(list string) []string {
	var out []string
	depth, from := 0, 0
	for i, c := range list {
		switch {
		case c == '(':
			depth++
		case c == ')':
			depth = max(0, depth-1)
		case c == ',' && depth == 0:
			out, from = append(out, list[from:i]), i+1
		}
	}
	if list != "" {
		out = append(out, list[from:])
	}
	return out
}

// partition contains what scontrol shows of a partition.
type partition struct {
	isDefault bool
	open      bool          // accepts jobs of this user and starts them
	longest   time.Duration // 0: no limit
	usual     time.Duration // limit of a job that asks for none; 0: longest
	cpus      int           // that its jobs get of a node; 0: no limit
	memory    resources.GiB // of one job on a node; 0: no limit
	whole     bool          // allocates whole nodes
	billing   map[string]float64
}

// parsePartitions reads the output of scontrol show partition, with or without --oneliner.
func parsePartitions(text string) (map[string]partition, error) {
	out := map[string]partition{}
	name := ""
	for _, word := range strings.Fields(text) {
		k, v, ok := strings.Cut(word, "=")
		if !ok {
			continue
		}
		if k == "PartitionName" {
			name = v
			out[name] = partition{open: true}
		}
		if name == "" {
			continue
		}
		p := out[name]
		if err := p.set(k, known(v)); err != nil {
			return nil, fmt.Errorf("scontrol: partition %s: %w", name, err)
		}
		out[name] = p
	}
	if len(out) == 0 {
		return nil, errors.New("scontrol: output without a partition")
	}
	return out, nil
}

// set applies one property of a partition; "" is an unknown value.
func (p *partition) set(name, value string) error {
	switch name {
	case "Default":
		p.isDefault = value == "YES"
	case "State":
		p.open = p.open && value == "UP"
	case "RootOnly":
		p.open = p.open && (value != "YES" || os.Getuid() == 0)
	case "ReqResv":
		p.open = p.open && value != "YES"
	case "MaxTime", "DefaultTime":
		limit, err := parseLimit(value)
		if err != nil {
			return err
		}
		if name == "MaxTime" {
			p.longest = limit
		} else {
			p.usual = limit
		}
	case "OverSubscribe", "Shared": // its name before 16.05
		p.whole = value == "EXCLUSIVE"
	case "MaxCPUsPerNode":
		if n, err := wholeNumber(value); err == nil { // otherwise UNLIMITED
			p.cpus = n
		}
	case "MaxMemPerNode": // MiB
		if n, err := wholeNumber(value); err == nil {
			p.memory = resources.GiB(float64(n) / 1024)
		}
	case "TRESBillingWeights":
		billing, err := parseBilling(value)
		if err != nil {
			return err
		}
		p.billing = billing
	}
	return nil
}

// parseLimit reads a time limit, 0 for none.
func parseLimit(text string) (time.Duration, error) {
	if text == "" || strings.EqualFold(text, "INFINITE") {
		return 0, nil
	}
	d, err := parseDuration(text)
	if err != nil || d == nil {
		return 0, err
	}
	return *d, nil
}

// parseBilling reads TRESBillingWeights such as "CPU=1.0,Mem=0.25G,GRES/gpu:a100=2.0". A weight of memory applies to one
// unit of its suffix, without which it is one MiB, and is returned per GiB.
func parseBilling(text string) (map[string]float64, error) {
	if text == "" {
		return nil, nil
	}
	out := map[string]float64{}
	for item := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(item), "=")
		value = strings.ToUpper(value)
		unit := 1.0
		if name = lowerKind(name); name == "mem" {
			unit = 1024 // MiB in a GiB
		}
		if n := len(value); n > 0 {
			if power, suffix := binary[value[n-1]]; suffix {
				value = value[:n-1]
				if name == "mem" {
					unit = math.Pow(1024, 3-power)
				}
			}
		}
		weight, err := strconv.ParseFloat(value, 64)
		if !ok || name == "" || err != nil || !(weight >= 0) || math.IsInf(weight*unit, 0) {
			return nil, fmt.Errorf("billing weight %q: want NAME=NUMBER", item)
		}
		out[name] = weight * unit
	}
	return out, nil
}

// lowerKind returns the name of a resource in lower case, except for the type of a generic resource.
func lowerKind(name string) string {
	resource, kind, ok := strings.Cut(name, ":")
	if resource = strings.ToLower(resource); ok {
		return resource + ":" + kind
	}
	return resource
}

// offers combines nodes that are up and partitions.
func offers(groups []nodeGroup, partitions map[string]partition) []engine.Offer {
	return up(configured(groups, partitions))
}

// configured combines nodes, whether they are up or not, and partitions.
func configured(groups []nodeGroup, partitions map[string]partition) []engine.Offer {
	var out []engine.Offer
	for _, g := range groups {
		p, ok := partitions[g.partition]
		up, idle := usable(g.state)
		if !ok || !p.open || g.nodes == 0 {
			continue
		}
		for _, gpu := range g.gpus {
			o := engine.Offer{Partition: g.partition, Default: p.isDefault, GPUType: gpu.kind, GPUs: gpu.count, CPUs: g.cpus, Memory: g.memory,
				Longest: p.longest, Usual: p.usual, Features: g.features, Billing: p.billing, Whole: p.whole}
			if p.cpus > 0 {
				o.CPUs = min(o.CPUs, p.cpus)
			}
			if p.memory > 0 {
				o.Memory = min(o.Memory, p.memory)
			}
			i := slices.IndexFunc(out, func(have engine.Offer) bool { return compareOffers(have, o) == 0 })
			if i < 0 {
				i, out = len(out), append(out, o)
			}
			if !up {
				out[i].Down = append(out[i].Down, g.names...)
				continue
			}
			out[i].Nodes += g.nodes
			out[i].Names = append(out[i].Names, g.names...)
			if idle {
				out[i].Idle += g.nodes
			}
		}
	}
	slices.SortFunc(out, compareOffers)
	return out
}

// compareOffers orders kinds of nodes; those of equal kind and partition compare as 0.
func compareOffers(a, b engine.Offer) int {
	return cmp.Or(compareTrueFirst(a.Default, b.Default), cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.GPUType, b.GPUType),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.CPUs, b.CPUs), cmp.Compare(a.Memory, b.Memory), slices.Compare(a.Features, b.Features))
}

func compareTrueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// usable reports whether nodes in a state of sinfo run jobs, and whether no job runs on them. Flags follow the state:
// powered down (~) and powering up (#) nodes start on demand; a * marks nodes that do not respond, $ maintenance.
func usable(state string) (up, idle bool) {
	base := state[:len(state)-len(strings.TrimLeft(state, "abcdefghijklmnopqrstuvwxyz_"))]
	flags := state[len(base):]
	if strings.ContainsAny(flags, "*$") || strings.Contains(flags, "drain") || strings.Contains(flags, "maint") {
		return false, false
	}
	switch base {
	case "idle", "plnd", "planned":
		return true, !strings.ContainsAny(flags, "@^!%")
	case "mix", "mixed", "alloc", "allocated", "comp", "completing", "resv", "reserved", "blocked":
		return true, false
	}
	return false, false
}
